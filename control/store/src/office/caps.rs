//! Monthly caps of keys, and alerts about their thresholds (readings B17, B19, B20).

use std::collections::{BTreeMap, BTreeSet};

use crate::database::{Column, Sql, Tx, from_row, values};
use crate::ledger::is_reached;
use crate::{Result, Store};

/// Alerts are written at these percentages of a key's cap.
pub const CAP_THRESHOLDS: [i64; 2] = [80, 100];

/// An alert: the spending of a key reached this threshold of the key's cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapAlert {
    /// The threshold in percent.
    pub threshold: i64,
    /// When the threshold was reached, in microseconds since 1970.
    pub reached_at: i64,
}

from_row!(CapAlert { threshold, reached_at });

/// Caps in yen by lineage.
pub(super) type Caps = BTreeMap<String, i64>;

/// Spending in thousandths of a yen, by lineage and month.
pub(super) type Spent<'a> = BTreeMap<(&'a str, i64), i64>;

impl Store {
    /// Returns a key's cap in yen.
    pub async fn office_cap(&self, lineage_id: &str) -> Result<Option<i64>> {
        let sql = "SELECT cap_yen FROM office_caps WHERE lineage_id = $1";
        let row: Option<(i64,)> = self.db.fetch_optional(sql, values![lineage_id]).await?;
        Ok(row.map(|(cap_yen,)| cap_yen))
    }

    /// Returns the thresholds of this cap that a key's spending reached in a month.
    pub async fn office_cap_alerts(&self, lineage_id: &str, month: i64, cap_yen: i64) -> Result<Vec<CapAlert>> {
        let sql = "SELECT threshold, reached_at FROM office_cap_alerts WHERE lineage_id = $1 AND month = $2 AND cap_yen = $3 \
             ORDER BY threshold";
        self.db.fetch_all(sql, values![lineage_id, month, cap_yen]).await
    }
}

impl Tx {
    /// Sets a key's cap, in place of an earlier cap. If `cap_yen` is 0, removes the cap.
    pub async fn set_office_cap(&mut self, lineage_id: &str, cap_yen: i64, now: i64) -> Result<()> {
        if cap_yen == 0 {
            let sql = "DELETE FROM office_caps WHERE lineage_id = $1";
            return self.execute(sql, values![lineage_id]).await.map(drop);
        }
        let sql = "INSERT INTO office_caps (lineage_id, cap_yen, updated_at) VALUES ($1, $2, $3) \
             ON CONFLICT (lineage_id) DO UPDATE SET cap_yen = excluded.cap_yen, updated_at = excluded.updated_at";
        self.execute(sql, values![lineage_id, cap_yen, now]).await.map(drop)
    }

    /// Writes an alert for each threshold of a key's new cap that the key's spending has already reached. `milli_yen`:
    /// the spending in thousandths of a yen.
    pub async fn note_reached_cap(
        &mut self,
        lineage_id: &str,
        month: i64,
        cap_yen: i64,
        milli_yen: i64,
        now: i64,
    ) -> Result<()> {
        let caps = Caps::from([(lineage_id.to_owned(), cap_yen)]);
        note_reached_caps(self, &caps, &Spent::new(), &Spent::from([((lineage_id, month), milli_yen)]), now).await
    }
}

/// Returns the caps of these lineages.
pub(super) async fn caps_of(tx: &mut Tx, lineages: &BTreeSet<&str>) -> Result<Caps> {
    let sql = Sql {
        sqlite: "SELECT lineage_id, cap_yen FROM office_caps WHERE lineage_id IN (SELECT r.value->>0 FROM json_each($1) r)",
        postgres: "SELECT lineage_id, cap_yen FROM office_caps WHERE lineage_id = ANY($1::text[])",
    };
    let rows: Vec<(String, i64)> = tx.fetch_rows(sql, &[Column::Texts(lineages.iter().copied().collect())]).await?;
    Ok(rows.into_iter().collect())
}

/// Writes an alert for each threshold that the spending `after` has reached and the spending `before` had not reached.
pub(super) async fn note_reached_caps(
    tx: &mut Tx,
    caps: &Caps,
    before: &Spent<'_>,
    after: &Spent<'_>,
    now: i64,
) -> Result<()> {
    for ((lineage_id, month), spent) in after {
        let Some(&cap_yen) = caps.get(*lineage_id) else { continue };
        let earlier = before.get(&(*lineage_id, *month)).copied().unwrap_or(0);
        let limit = cap_yen.saturating_mul(1000);
        for threshold in CAP_THRESHOLDS {
            if is_reached(*spent, limit, threshold) && !is_reached(earlier, limit, threshold) {
                let sql = "INSERT INTO office_cap_alerts (lineage_id, month, cap_yen, threshold, reached_at) \
                     VALUES ($1, $2, $3, $4, $5) ON CONFLICT (lineage_id, month, cap_yen, threshold) DO NOTHING";
                tx.execute(sql, values![*lineage_id, *month, cap_yen, threshold, now]).await?;
            }
        }
    }
    Ok(())
}
