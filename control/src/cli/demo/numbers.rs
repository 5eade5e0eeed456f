//! `ango demo --ckks`: applies a model to encrypted numbers from end to end. The model is encrypted too, so the node
//! can read neither the table nor the weights.
//!
//! The model is logistic regression with three outcomes: a matrix of weights times the features of a row, then the
//! sigmoid as a polynomial of degree 7. Each row of the table is one vector, so it needs one matrix product and one
//! polynomial.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use api::compute::ComputeRequest;
use api::{CiphertextId, EncryptionKeyId, MicroYen};
use client::ckks::{
    Params, ParamsLiteral, SecretKey, SecurityLevel, container, evaluation_key_parts, matrix_product_parts,
};
use client::http;
use comfy_table::{CellAlignment, Table, presets};

use super::size;
use crate::cli::files;
use crate::cli::progress::ByteProgress;

/// An invented table of pumps.
const TABLE: &str = include_str!("../../../assets/demo/pumps.csv");
const FEATURES: [&str; 4] = ["temperature_c", "vibration_mm_s", "hours_k", "load_pct"];
const OUTCOMES: [&str; 3] = ["bearing", "motor", "belt"];
/// Mean of each feature. The next constants are the standard deviation of each feature and the weights of each outcome,
/// with the intercept last. The model was found by gradient descent on 400 invented rows.
const MEAN: [f64; 4] = [62.0, 2.6, 4.8, 64.0];
const DEVIATION: [f64; 4] = [9.0, 1.2, 2.7, 19.0];
const WEIGHTS: [[f64; 5]; 3] =
    [[0.914, 1.932, 0.893, 0.702, -1.427], [1.771, 0.162, 0.784, 1.556, -1.081], [0.197, 0.900, 1.936, 0.578, -0.804]];
/// The model divides scores by this number, because powers of numbers between -1 and 1 keep their precision.
const RANGE: f64 = 8.0;
/// Bounds on the features and on the divided weights. A ciphertext carries its bound unencrypted, so the bounds say what
/// features and weights may be, and do not depend on this table or this model.
const FEATURE_BOUND: f64 = 8.0;
const WEIGHT_BOUND: f64 = 0.25;
/// Coefficients of the polynomial that stands for the sigmoid, the constant first. They are the least-squares fit on
/// `[-RANGE, RANGE]`, where the error is at most 0.032.
const SIGMOID: [f64; 8] = [
    0.5,
    0.216_875_935_192_655_6,
    0.0,
    -0.008_191_364_046_706_02,
    0.0,
    0.000_165_797_839_208_160_8,
    0.0,
    -0.000_001_195_018_088_232_132,
];
/// Largest size of a table in bytes. The next constant is the largest number of rows.
const TABLE_BYTES_MAX: usize = 1 << 20;
const ROWS_MAX: usize = 1000;

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    /// The standardised features, then 1 for the intercept.
    features: [f64; 5],
}

impl Row {
    /// Computes the model's scores without encryption.
    fn scores(&self) -> [f64; 3] {
        WEIGHTS.map(|weights| weights.iter().zip(&self.features).map(|(weight, feature)| weight * feature).sum())
    }
}

/// The rows of a table of pumps, which is a CSV file or the embedded table.
pub struct PumpTable(Vec<Row>);

impl PumpTable {
    /// Reads a table.
    ///
    /// # Errors
    /// The fault in the file, with its line.
    pub fn read(path: Option<&Path>) -> anyhow::Result<PumpTable> {
        match path {
            None => PumpTable::parse(TABLE.as_bytes()),
            Some(path) => {
                let bytes = files::read(path, TABLE_BYTES_MAX)?;
                PumpTable::parse(&bytes).with_context(|| path.display().to_string())
            }
        }
    }

    fn parse(bytes: &[u8]) -> anyhow::Result<PumpTable> {
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
        let columns = reader.headers()?.clone();
        let places: Vec<usize> = FEATURES
            .iter()
            .map(|name| {
                let place = columns.iter().position(|column| column == *name);
                place.with_context(|| {
                    format!(
                        "there is no column {name}: the first column must be the row's name, and the others must be {}",
                        FEATURES.join(", ")
                    )
                })
            })
            .collect::<anyhow::Result<_>>()?;
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record?;
            let line = record.position().map_or(0, csv::Position::line);
            if rows.len() == ROWS_MAX {
                bail!("line {line}: more than {ROWS_MAX} rows");
            }
            let mut features = [1.0; 5];
            for ((feature, &place), at) in features.iter_mut().zip(&places).zip(0..) {
                let text = record.get(place).unwrap_or_default();
                let number: f64 = text
                    .parse()
                    .ok()
                    .filter(|number: &f64| number.is_finite())
                    .with_context(|| format!("line {line}: {} is `{text}`, not a number", FEATURES[at]))?;
                *feature = (number - MEAN[at]) / DEVIATION[at];
                if feature.abs() > FEATURE_BOUND {
                    bail!(
                        "line {line}: {} is more than {FEATURE_BOUND} standard deviations from its mean",
                        FEATURES[at]
                    );
                }
            }
            let row = Row { name: record.get(0).unwrap_or_default().to_owned(), features };
            if row.scores().iter().any(|score| score.abs() > RANGE) {
                bail!(
                    "line {line}: a score of the row {} has a magnitude above {RANGE}, the largest that the polynomial covers",
                    row.name
                );
            }
            rows.push(row);
        }
        if rows.is_empty() {
            bail!("there are no rows");
        }
        Ok(PumpTable(rows))
    }
}

/// Evaluates the polynomial of degree 7 that the model uses in place of the sigmoid.
fn polynomial(score: f64) -> f64 {
    SIGMOID.iter().rev().fold(0.0, |sum, coefficient| sum * score + coefficient)
}

fn sigmoid(score: f64) -> f64 {
    1.0 / (1.0 + (-score).exp())
}

/// Makes the demonstration's parameters: five levels, 128 bits of security.
fn params() -> anyhow::Result<Params> {
    let security = SecurityLevel::Bits128;
    Ok(Params::new(ParamsLiteral { poly_degree: 16384, scale_bits: 40, max_depth: 5, security, bootstrap: false })?)
}

/// Does the client's side of the demonstration, as a customer's program would do it. `note` prints progress.
pub async fn demonstrate(
    client: &http::Client,
    table: &PumpTable,
    note: impl Fn(&str),
) -> anyhow::Result<NumbersReport> {
    let params = params()?;
    note("making keys ...");
    let key = SecretKey::generate(&params);
    let mut parts = evaluation_key_parts(&params);
    parts.extend(matrix_product_parts(&params));
    let evaluation_key_bytes = parts.iter().map(|&(kind, level)| container::part_bytes(&params, kind, level)).sum();
    let public_key = container::write_public_key(&key.public_key(params.level_max()));
    note("uploading the public key and the evaluation key ...");
    let progress = ByteProgress::new(evaluation_key_bytes as u64);
    let pieces = key.evaluation_key(&parts).map(Ok);
    let key_id = client.upload_key(&params, public_key, pieces, |sent| progress.update(sent)).await?.key_id;
    progress.finish();
    let mut model = Model { client, key: &key, key_id: &key_id, matrix: None, cost: MicroYen(0), left: 0.0 };
    note("encrypting the model ...");
    model.upload_weights().await?;
    note(&format!("computing {} rows ...", table.0.len()));
    let start = Instant::now();
    let mut predictions = Vec::with_capacity(table.0.len());
    let mut ciphertext_bytes = 0;
    for row in &table.0 {
        let (prediction, bytes) = model.predict(row).await.with_context(|| row.name.clone())?;
        ciphertext_bytes = bytes;
        predictions.push(prediction);
    }
    let elapsed = start.elapsed();
    let record = client.encryption_key(&key_id).await?;
    let report = NumbersReport {
        backend: client.health().await?.fhe_engine,
        security_bits: params.security_bits(),
        poly_degree: params.n(),
        secret_key_bytes: key.to_bytes().len(),
        evaluation_key_bytes,
        ciphertext_bytes,
        operations: record.operation_count,
        predictions,
        elapsed,
        cost: model.cost,
        noise_budget_remaining: model.left,
    };
    client.delete_encryption_key(&key_id).await?;
    Ok(report)
}

/// The encrypted model on a node.
struct Model<'a> {
    client: &'a http::Client,
    key: &'a SecretKey,
    key_id: &'a EncryptionKeyId,
    matrix: Option<CiphertextId>,
    cost: MicroYen,
    /// Remaining noise budget of the last result, in percent.
    left: f64,
}

impl Model<'_> {
    /// Fills numbers up with zeros, encrypts them and uploads the ciphertext. Returns also the size of the upload in
    /// bytes.
    async fn upload(&self, mut numbers: Vec<f64>, bound: f64) -> anyhow::Result<(CiphertextId, usize)> {
        let params = self.key.params();
        numbers.resize(params.slots(), 0.0);
        let ciphertext = self.key.encrypt(&numbers, bound)?;
        let bytes = container::write_seeded_ciphertext(&ciphertext, params, self.key.fingerprint());
        let count = bytes.len();
        Ok((self.client.upload_ciphertext(self.key_id, bytes).await?, count))
    }

    /// Uploads the weights as a matrix with one row for each outcome.
    async fn upload_weights(&mut self) -> anyhow::Result<()> {
        // the matrix is square, as large as the slots allow (readings C10)
        let dimension = 1 << (self.key.params().slots().ilog2() / 2);
        let mut matrix = vec![0.0; dimension * WEIGHTS.len()];
        for (row, weights) in matrix.chunks_exact_mut(dimension).zip(&WEIGHTS) {
            row.iter_mut().zip(weights).for_each(|(slot, weight)| *slot = weight / RANGE);
        }
        self.matrix = Some(self.upload(matrix, WEIGHT_BOUND).await?.0);
        Ok(())
    }

    /// Runs an operation on the node and leaves the result there. The result must have numbers between -1 and 1.
    async fn compute(
        &mut self,
        operation: &str,
        ids: &[&CiphertextId],
        polynomial_coeffs: Option<Vec<f64>>,
    ) -> anyhow::Result<CiphertextId> {
        let request = ComputeRequest {
            operation: Some(operation.to_owned()),
            key_id: self.key_id.as_str().to_owned(),
            ciphertext_ids: ids.iter().map(|id| id.as_str().to_owned()).collect(),
            polynomial_coeffs,
            result_bound: Some(1.0),
            return_ciphertext: Some(false),
            ..ComputeRequest::default()
        };
        let done = self.client.compute(&request).await?;
        self.cost = MicroYen(self.cost.0 + done.cost_jpy.0);
        self.left = done.noise_budget_remaining;
        done.result_ciphertext_id.context("the completed operation has no result")
    }

    /// Computes the outcomes of a row. Returns also the size of the row's ciphertext in bytes.
    async fn predict(&mut self, row: &Row) -> anyhow::Result<(Prediction, usize)> {
        let matrix = self.matrix.clone().context("the weights are not uploaded yet")?;
        let (features, bytes) = self.upload(row.features.to_vec(), FEATURE_BOUND).await?;
        // the table was checked: scores are within their range, so the polynomial's values are between -1 and 1
        let scores = self.compute("matmul", &[&matrix, &features], None).await?;
        let unit_powers = SIGMOID.iter().zip(0..).map(|(coefficient, power)| coefficient * RANGE.powi(power)).collect();
        let result = self.compute("poly-eval", &[&scores], Some(unit_powers)).await?;
        let read = container::read_ciphertext(
            &self.client.ciphertext(&result).await?,
            self.key.params(),
            self.key.fingerprint(),
        )?;
        let decrypted = self.key.decrypt(&read)?;
        for id in [&features, &scores, &result] {
            self.client.delete_ciphertext(id).await?;
        }
        let mut outcomes = [0.0; 3];
        outcomes.copy_from_slice(&decrypted.values[..3]);
        let prediction = Prediction { row: row.clone(), outcomes, precision_bits: decrypted.precision_bits };
        Ok((prediction, bytes))
    }
}

/// A row's decrypted outcomes.
struct Prediction {
    row: Row,
    outcomes: [f64; 3],
    /// Precision in bits that the record of the outcomes' ciphertext promises.
    precision_bits: f64,
}

impl Prediction {
    /// Returns the largest difference between an outcome and plain arithmetic.
    fn error(&self) -> f64 {
        let plain = self.row.scores().map(polynomial);
        self.outcomes.iter().zip(plain).map(|(found, plain)| (found - plain).abs()).fold(0.0, f64::max)
    }
}

/// The measurements of the demonstration.
pub struct NumbersReport {
    backend: String,
    security_bits: u32,
    poly_degree: usize,
    secret_key_bytes: usize,
    evaluation_key_bytes: usize,
    ciphertext_bytes: usize,
    /// Number of operations in the key's record.
    operations: u64,
    predictions: Vec<Prediction>,
    /// Time from the first upload of a row to the last decryption.
    elapsed: Duration,
    cost: MicroYen,
    noise_budget_remaining: f64,
}

impl NumbersReport {
    /// Returns the largest difference between an outcome and plain arithmetic, over all rows.
    fn error(&self) -> f64 {
        self.predictions.iter().map(Prediction::error).fold(0.0, f64::max)
    }

    /// Returns the lowest of the precisions, in bits, that the records promise for the rows.
    fn promised_bits(&self) -> f64 {
        self.predictions.iter().map(|prediction| prediction.precision_bits).fold(f64::INFINITY, f64::min)
    }

    /// Prints the report for people.
    pub fn print(&self) {
        let row = |name: &str, text: String| println!("{name:<16}{text}");
        row("backend", self.backend.clone());
        row("parameters", format!("N {}: {} bits of security", self.poly_degree, self.security_bits));
        row("secret key", format!("{}, never sent", size(self.secret_key_bytes)));
        row("evaluation key", format!("{}, sent once (seeded)", size(self.evaluation_key_bytes)));
        row("ciphertext", format!("{} a row (seeded)", size(self.ciphertext_bytes)));
        row("model", "logistic regression, weights encrypted as a matrix, sigmoid of degree 7".to_owned());
        let seconds = self.elapsed.as_secs_f64();
        row("speed", format!("{:.2} s for each row, {seconds:.2} s in total", seconds / self.predictions.len() as f64));
        let yen = self.cost.0 as f64 / 1e6;
        row("bill", format!("{yen} yen for {} operations, as the API reported it", self.operations));
        row("noise budget", format!("{}% left", self.noise_budget_remaining));
        println!();
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(["", "decrypted", "", "", "plain arithmetic", "", "", "logistic", "", ""]);
        let outcomes = [OUTCOMES; 3].concat();
        table.add_row([String::new()].into_iter().chain(outcomes.into_iter().map(str::to_owned)));
        for prediction in &self.predictions {
            let scores = prediction.row.scores();
            let cells = prediction.outcomes.into_iter().chain(scores.map(polynomial)).chain(scores.map(sigmoid));
            let cells = cells.map(|value| format!("{value:.6}"));
            table.add_row(std::iter::once(prediction.row.name.clone()).chain(cells));
        }
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        println!("{table}\n");
        let (error, bits) = (self.error(), -self.error().log2());
        row("precision", format!("{bits:.1} bits: worst error {error:.1e}, promised {:.1} bits", self.promised_bits()));
    }

    /// Returns the report as one JSON object.
    pub fn json(&self) -> serde_json::Value {
        let rows = self.predictions.iter().map(|prediction| {
            let scores = prediction.row.scores();
            serde_json::json!({
                "name": prediction.row.name,
                "decrypted": prediction.outcomes,
                "plain": scores.map(polynomial),
                "logistic": scores.map(sigmoid),
            })
        });
        serde_json::json!({
            "backend": self.backend,
            "poly_degree": self.poly_degree,
            "security_bits": self.security_bits,
            "secret_key_bytes": self.secret_key_bytes,
            "evaluation_key_bytes": self.evaluation_key_bytes,
            "ciphertext_bytes": self.ciphertext_bytes,
            "operations": self.operations,
            "elapsed_s": self.elapsed.as_secs_f64(),
            "cost_jpy": self.cost,
            "noise_budget_remaining": self.noise_budget_remaining,
            "outcomes": OUTCOMES,
            "rows": rows.collect::<Vec<_>>(),
            "worst_error": self.error(),
            "precision_bits": -self.error().log2(),
            "precision_bits_promised": self.promised_bits(),
            "correct": self.check().is_ok(),
        })
    }

    /// Fails if an error is larger than promised, or if the node recorded a wrong number of operations.
    pub fn check(&self) -> anyhow::Result<()> {
        for prediction in &self.predictions {
            let promised = (-prediction.precision_bits).exp2();
            if prediction.error() > promised {
                let name = &prediction.row.name;
                bail!("{name}: the error {:.1e} is above the promised {promised:.1e}", prediction.error());
            }
        }
        let computed = 2 * self.predictions.len() as u64;
        if self.operations != computed {
            bail!("the node recorded {} operations for the key, but {computed} were done", self.operations);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_table_is_within_the_model_s_range() {
        let PumpTable(rows) = PumpTable::read(None).unwrap();
        assert_eq!((rows.len(), rows[0].name.as_str()), (12, "pump-01"));
        for row in &rows {
            for score in row.scores() {
                assert!((polynomial(score) - sigmoid(score)).abs() < 0.033, "{score}");
            }
        }
    }

    #[test]
    fn a_table_of_other_columns_or_values_is_refused_with_its_line() {
        let header = "name,load_pct,hours_k,vibration_mm_s,temperature_c";
        let read = |text: &str| PumpTable::parse(text.as_bytes()).map(|table| table.0.len()).map_err(|e| e.to_string());
        assert_eq!(read(&format!("{header}\n\"a, b\", 64 ,4.8,2.6,62\n")), Ok(1), "columns in any order");
        for (text, words) in [
            ("".to_owned(), "temperature_c"),
            (header.to_owned(), "no rows"),
            ("name,load_pct\na,1\n".to_owned(), "temperature_c"),
            (format!("{header}\na,64,4.8,2.6,62\nb,64,x,2.6,62\n"), "line 3: hours_k"),
            (format!("{header}\na,64,4.8,2.6\n"), "line: 2"),
            (format!("{header}\na,64,4.8,2.6,NaN\n"), "line 2: temperature_c"),
            (format!("{header}\na,64,4.8,2.6,6200\n"), "line 2: temperature_c is more than"),
            (format!("{header}\na,140,9,8,90\n"), "line 2: a score"),
        ] {
            let refused = read(&text).unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
    }
}
