//! Stored keys for encrypted numbers in a fleet. The rows of a key are objects in the bucket, each sealed in frames under the
//! key's random data key. The data key is sealed under the fleet's key and lies in the record of the key's material, so a
//! deleted key makes its objects unreadable, wherever copies of them lie. Workers read the rows from the bucket.

use zeroize::Zeroizing;

use super::frames;
use super::session_key::FleetSeal;
use crate::secrets::Key;

/// The data key of a material: the rows of one stored key, or of several keys with the same content.
#[derive(Clone)]
pub struct RowsKey {
    material_id: String,
    key: Key,
}

impl RowsKey {
    /// Makes a random data key for a new material. Returns the data key, and the sealed data key for the material's record.
    pub fn new(seal: &FleetSeal, material_id: &str) -> (RowsKey, Vec<u8>) {
        let (key, secret) = seal.new_data_key(&secret_label(material_id));
        (RowsKey { material_id: material_id.to_owned(), key }, secret)
    }

    /// Opens a sealed data key. `None`: the bytes are of another material or of another fleet's key.
    pub fn open(seal: &FleetSeal, material_id: &str, secret: &[u8]) -> Option<RowsKey> {
        let key = seal.open_data_key(&secret_label(material_id), secret)?;
        Some(RowsKey { material_id: material_id.to_owned(), key })
    }

    /// Seals the container of a row.
    pub fn seal_row(&self, row_index: i64, row: &[u8]) -> Vec<u8> {
        frames::seal(&self.key, &self.label(row_index), row)
    }

    /// Opens the container of a row. `None`: the bytes were changed, or are another row or a row of another key.
    pub fn open_row(&self, row_index: i64, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        frames::open(&self.key, &self.label(row_index), sealed)
    }

    fn label(&self, row_index: i64) -> String {
        format!("{} row {row_index}", self.material_id)
    }
}

/// Returns the label under which the data key of a material is sealed. Labels of sessions have no space.
fn secret_label(material_id: &str) -> String {
    format!("{material_id} rows")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_opens_in_its_place_of_its_key_and_of_its_fleet_only() {
        let [fleet, other_fleet] = [[1; 32], [2; 32]].map(|key| FleetSeal::new(&Key::new(key)));
        let (key, secret) = RowsKey::new(&fleet, "mat_1");
        let sealed = key.seal_row(3, &[7; 100]);
        assert!(!sealed.windows(16).any(|window| window == [7; 16]));
        let opened = RowsKey::open(&fleet, "mat_1", &secret).unwrap();
        assert_eq!(*opened.open_row(3, &sealed).unwrap(), [7; 100]);
        assert!(opened.open_row(4, &sealed).is_none());
        assert!(RowsKey::open(&fleet, "mat_2", &secret).is_none());
        assert!(RowsKey::open(&other_fleet, "mat_1", &secret).is_none());
        let (other, _) = RowsKey::new(&fleet, "mat_1");
        assert!(other.open_row(3, &sealed).is_none());
    }
}
