//! Encryption keys, their materials, and their uploads in parts.

use super::*;

const SEEDED: Seeded = Seeded { seed: [3; 32], sha256: [2; 32] };

pub fn material<'a>(material_id: &'a str, account_id: &'a str) -> NewKeyMaterial<'a> {
    NewKeyMaterial { material_id, account_id, node_id: "", key_secret: None, now: 5 }
}

pub fn row(row_index: i64, object: &str) -> KeyRowRecord {
    KeyRowRecord {
        row_index,
        kind: "galois".to_owned(),
        element: 5,
        level: 3,
        digit: row_index,
        digits: 4,
        object: object.to_owned(),
        bytes: 100,
        sha256: vec![7; 32],
        seed: None,
    }
}

/// Adds a public key, an evaluation key's head and its rows to a key material. `public_key` and `rows` are names of
/// objects.
pub async fn fill(tx: &mut Tx, material_id: &str, public_key: &str, rows: &[&str]) -> Result<()> {
    let key = NewPublicKey { params: "{}", fingerprint: &[1; 8], object: public_key, bytes: 50, seeded: SEEDED };
    assert_eq!(tx.put_public_key(material_id, &key, 6).await?, Added::Done);
    let head = NewKeyHead { params: "{}", fingerprint: &[1; 8], rows: rows.len() as i64, bytes: 20 };
    assert_eq!(tx.put_key_head(material_id, &head).await?, Added::Done);
    let rows: Vec<_> = rows.iter().enumerate().map(|(at, object)| row(at as i64, object)).collect();
    assert_eq!(tx.add_key_rows(material_id, 20, &rows).await?, Added::Done);
    Ok(())
}

pub fn encryption_key<'a>(key_id: &'a str, account_id: &'a str, material_id: &'a str) -> NewEncryptionKey<'a> {
    NewEncryptionKey {
        key_id,
        account_id,
        environment: Environment::Test,
        scheme: "rns-ckks",
        source: "upload",
        material_id,
        digest: &[9; 32],
        upload_id: None,
        keys_max: Some(3),
        now: 10,
    }
}

/// Makes an encryption key whose evaluation key has two rows. The names of the key's objects begin with the key's id.
pub async fn make_key(store: &Store, new: &NewEncryptionKey<'_>) -> KeyMade {
    let names = ["pk", "row 0", "row 1"].map(|object| format!("{} {object}", new.key_id));
    store
        .write(async |tx| {
            tx.insert_key_material(&material(new.material_id, new.account_id)).await?;
            fill(tx, new.material_id, &names[0], &[&names[1], &names[2]]).await?;
            tx.insert_encryption_key(new).await
        })
        .await
        .unwrap()
}

pub async fn account(store: &Store, digest: u8, account_id: &str) {
    store.insert_api_key(&key(&[digest; 32], account_id, account_id)).await.unwrap();
}

/// Returns kinds and names of the objects that must be removed from the node's storage, sorted.
pub async fn dropped(store: &Store, node_id: &str) -> Vec<String> {
    let found = store.dropped_objects(node_id, 100).await.unwrap();
    let mut names: Vec<_> = found.iter().map(|dropped| format!("{}: {}", dropped.kind, dropped.object)).collect();
    names.sort();
    names
}

pub async fn delete(store: &Store, account_id: &str, key_id: &str) -> Option<DeletedKey> {
    store.write(async |tx| tx.delete_encryption_key(account_id, key_id, 20).await).await.unwrap()
}

on_both! {
    async fn a_key_is_kept_read_by_its_account_alone_and_deleted_once(store: Store) {
        account(&store, 1, "acct_1").await;
        account(&store, 2, "acct_2").await;
        assert_eq!(make_key(&store, &encryption_key("key_1", "acct_1", "mat_1")).await, KeyMade::Made);
        let found = store.encryption_key("acct_1", "key_1").await.unwrap().unwrap();
        assert_eq!(
            (&*found.scheme, found.environment, found.public_key_bytes, found.eval_key_bytes),
            ("rns-ckks", Environment::Test, 50, 220)
        );
        assert_eq!((found.ciphertext_count, found.operation_count, found.created_at), (0, 0, 10));
        assert_eq!(store.key_rows("mat_1", 1, 9).await.unwrap(), [row(1, "key_1 row 1")]);
        assert_eq!(store.last_key_row("mat_1").await.unwrap(), Some(row(1, "key_1 row 1")));
        assert_eq!(store.key_bytes().await.unwrap(), 270);
        assert_eq!(store.encryption_key("acct_2", "key_1").await.unwrap(), None);
        assert_eq!(delete(&store, "acct_2", "key_1").await, None);
        assert!(dropped(&store, "").await.is_empty());

        assert_eq!(delete(&store, "acct_1", "key_1").await, Some(DeletedKey { ciphertexts: 0 }));
        assert_eq!(delete(&store, "acct_1", "key_1").await, None);
        assert_eq!((store.key_bytes().await.unwrap(), store.key_objects().await.unwrap().len()), (0, 0));
        let expected = ["pk", "row 0", "row 1"].map(|object| format!("encryption-keys: key_1 {object}"));
        assert_eq!(dropped(&store, "").await, expected);
        let gone = store.dropped_objects("", 2).await.unwrap();
        store.forget_dropped_objects(&gone).await.unwrap();
        assert_eq!(dropped(&store, "").await.len(), 1);
    }

    async fn k19_equal_uploads_of_an_account_share_storage_until_the_last_key_is_deleted(store: Store) {
        account(&store, 1, "acct_1").await;
        account(&store, 2, "acct_2").await;
        assert_eq!(make_key(&store, &encryption_key("key_1", "acct_1", "mat_1")).await, KeyMade::Made);
        assert_eq!(make_key(&store, &encryption_key("key_2", "acct_1", "mat_2")).await, KeyMade::Made);
        // key_2 has the same content as key_1, so both keys use mat_1; mat_2 is not needed, and its objects are listed
        // for removal
        assert_eq!(dropped(&store, "").await.len(), 3);
        assert!(dropped(&store, "").await.iter().all(|name| name.contains("key_2")));
        assert_eq!(store.encryption_key("acct_1", "key_2").await.unwrap().unwrap().material_id, "mat_1");
        // other accounts do not share the material
        assert_eq!(make_key(&store, &encryption_key("key_3", "acct_2", "mat_3")).await, KeyMade::Made);
        assert_eq!(store.encryption_key("acct_2", "key_3").await.unwrap().unwrap().material_id, "mat_3");
        delete(&store, "acct_1", "key_1").await.unwrap();
        assert_eq!(dropped(&store, "").await.len(), 3);
        delete(&store, "acct_1", "key_2").await.unwrap();
        assert_eq!(dropped(&store, "").await.len(), 6);
        assert_eq!(store.key_objects().await.unwrap().len(), 3);
    }

    async fn k19_keys_and_open_uploads_of_an_account_are_counted_together(store: Store) {
        account(&store, 1, "acct_1").await;
        let upload = |upload_id, material_id, expires_at| NewKeyUpload {
            upload_id,
            environment: Environment::Live,
            scheme: "ckks",
            params: "{}",
            material: material(material_id, "acct_1"),
            expires_at,
            keys_max: Some(2),
        };
        let begin = async |new: NewKeyUpload<'_>| store.write(async |tx| tx.insert_key_upload(&new).await).await.unwrap();
        assert_eq!(begin(upload("up_1", "mat_1", 50)).await, KeyMade::Made);
        assert_eq!(begin(upload("up_2", "mat_2", 8)).await, KeyMade::Made);
        assert_eq!(begin(upload("up_3", "mat_3", 50)).await, KeyMade::TooMany);
        // up_2 has expired before these keys are made, so it takes none of the account's two places; up_1 still takes
        // one
        let more = |key_id, material_id, digest| NewEncryptionKey {
            keys_max: Some(2),
            digest,
            ..encryption_key(key_id, "acct_1", material_id)
        };
        assert_eq!(make_key(&store, &more("key_1", "mat_4", &[4; 32])).await, KeyMade::Made);
        assert_eq!(make_key(&store, &more("key_2", "mat_5", &[5; 32])).await, KeyMade::TooMany);
        assert_eq!(store.key_upload("acct_1", "up_2", 10).await.unwrap(), None);
        assert_eq!(store.key_upload("acct_2", "up_1", 10).await.unwrap(), None);
        // an upload that becomes a key passes its place on to the key, so the key needs no second place
        store.write(async |tx| fill(tx, "mat_1", "pk", &["row"]).await).await.unwrap();
        let completed = NewEncryptionKey { upload_id: Some("up_1"), ..more("key_3", "mat_1", &[6; 32]) };
        let made = store.write(async |tx| tx.insert_encryption_key(&completed).await).await;
        assert_eq!(made.unwrap(), KeyMade::Made);
        assert_eq!(store.key_upload("acct_1", "up_1", 10).await.unwrap().unwrap().key_id.as_deref(), Some("key_3"));
        let nobody = encryption_key("key_4", "acct_9", "mat_6");
        assert_eq!(make_key(&store, &nobody).await, KeyMade::NoAccount);
        assert!(!store.delete_key_upload("acct_1", "up_1", 10).await.unwrap(), "the upload has become a key");
        // the key's objects stay when the completed upload is deleted
        assert_eq!(store.forget_key_uploads(60).await.unwrap(), 2);
        assert_eq!(store.key_rows("mat_1", 0, 9).await.unwrap().len(), 1);
        assert_eq!(store.key_upload("acct_1", "up_1", 10).await.unwrap(), None);
    }

    async fn rows_come_in_order_once_and_only_while_a_key_is_not_complete(store: Store) {
        account(&store, 1, "acct_1").await;
        let new = NewKeyUpload {
            upload_id: "up_1",
            environment: Environment::Live,
            scheme: "ckks",
            params: "{}",
            material: NewKeyMaterial { key_secret: Some(&[7; 60]), ..material("mat_1", "acct_1") },
            expires_at: 50,
            keys_max: None,
        };
        store.write(async |tx| tx.insert_key_upload(&new).await).await.unwrap();
        let add = async |offset, rows: &[KeyRowRecord]| {
            store.write(async |tx| tx.add_key_rows("mat_1", offset, rows).await).await.unwrap()
        };
        assert_eq!(add(0, &[row(0, "a")]).await, Added::NotAsExpected);
        let head = NewKeyHead { params: "{}", fingerprint: &[1; 8], rows: 3, bytes: 20 };
        let put_head = async || store.write(async |tx| tx.put_key_head("mat_1", &head).await).await.unwrap();
        assert_eq!(put_head().await, Added::Done);
        assert_eq!(put_head().await, Added::NotAsExpected);
        assert_eq!(add(20, &[row(0, "a")]).await, Added::Done);
        assert_eq!(add(20, &[row(0, "b")]).await, Added::NotAsExpected);
        assert_eq!(add(220, &[row(2, "b")]).await, Added::NotAsExpected);
        // the part already has a row with this digit
        let again = KeyRowRecord { digit: 0, ..row(1, "b") };
        assert!(store.write(async |tx| tx.add_key_rows("mat_1", 120, &[again]).await).await.is_err());
        assert_eq!(add(120, &[row(1, "b"), row(2, "c")]).await, Added::Done);
        // a public key with other parameters, or of another secret key
        let public_key = NewPublicKey { params: "{}", fingerprint: &[1; 8], object: "pk", bytes: 5, seeded: SEEDED };
        let put = async |key: NewPublicKey<'_>| store.write(async |tx| tx.put_public_key("mat_1", &key, 7).await).await.unwrap();
        for other in [
            NewPublicKey { params: "[]", ..public_key.clone() },
            NewPublicKey { fingerprint: &[3; 8], ..public_key.clone() },
        ] {
            assert_eq!(put(other).await, Added::NotAsExpected);
        }
        assert_eq!(put(public_key.clone()).await, Added::Done);
        assert_eq!(put(NewPublicKey { object: "pk 2", ..public_key.clone() }).await, Added::Done);
        assert_eq!(dropped(&store, "").await, ["encryption-keys: pk"]);
        let found = store.key_material("acct_1", "mat_1").await.unwrap().unwrap();
        assert_eq!((found.eval_key_bytes, found.rows_announced, found.digest), (320, Some(3), None));
        assert_eq!(found.key_secret, Some(vec![7; 60]));
        assert_eq!(store.key_material("acct_2", "mat_1").await.unwrap(), None);
        assert!(!store.delete_key_upload("acct_2", "up_1", 10).await.unwrap());
        assert!(!store.delete_key_upload("acct_1", "up_1", 50).await.unwrap());
        let other = NewKeyUpload { upload_id: "up_2", material: material("mat_2", "acct_1"), ..new.clone() };
        store.write(async |tx| tx.insert_key_upload(&other).await).await.unwrap();
        assert!(store.delete_key_upload("acct_1", "up_2", 10).await.unwrap());
        assert_eq!(store.key_material("acct_1", "mat_2").await.unwrap(), None);
        // nothing of an expired upload stays: its material is deleted, and its objects are listed for removal
        assert_eq!(store.forget_key_uploads(49).await.unwrap(), 0);
        assert_eq!(store.forget_key_uploads(50).await.unwrap(), 1);
        assert_eq!(dropped(&store, "").await.len(), 5);
        assert_eq!(store.key_material("acct_1", "mat_1").await.unwrap(), None);
        assert_eq!(put(public_key).await, Added::NotAsExpected);
    }

    async fn keys_are_listed_newest_first_a_page_at_a_time(store: Store) {
        account(&store, 1, "acct_1").await;
        for (n, now) in [(1u8, 10), (2, 11), (3, 11)] {
            let (key_id, material_id, digest) = (format!("key_{n}"), format!("mat_{n}"), [n; 32]);
            let new = NewEncryptionKey { digest: &digest, now, ..encryption_key(&key_id, "acct_1", &material_id) };
            make_key(&store, &new).await;
        }
        let names = async |after, rows_max| {
            let page = store.encryption_keys_page("acct_1", after, rows_max).await.unwrap();
            assert_eq!(page.total, 3);
            page.rows.into_iter().map(|row| row.key_id).collect::<Vec<_>>()
        };
        assert_eq!(names(None, 2).await, ["key_3", "key_2"]);
        assert_eq!(names(Some((11, "key_2")), 9).await, ["key_1"]);
        assert!(names(Some((10, "key_1")), 9).await.is_empty());
        assert_eq!(store.encryption_keys_page("acct_2", None, 9).await.unwrap().total, 0);
    }
}
