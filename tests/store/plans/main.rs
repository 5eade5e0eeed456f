//! No query scans a whole table that grows. The test runs all functions of the store and asks both databases for the
//! plan of every statement.
#![cfg(debug_assertions)]

mod access;
mod fleet;
mod office;

use api::circuits::OperationStatus;
use api::{Environment, Plan, Role};
use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use store::statements;
use store::*;
use tests_store::{Kind, new_store};

/// Small tables, and tables that only an operator's commands read. A query may scan them.
const SMALL: &[&str] = &[
    "nodes",
    "jobs",
    // small, because a reservation's row exists only while its work runs
    "open_reservations",
    // small for the same reason
    "running_circuits",
    // empty: SQLite's tables of the release before
    "circuit_operations",
    "arithmetic_operations",
    "signing_keys",
    "retired_signing_keys",
    "server_secret",
    "database_identity",
    "lockout_version",
    "moves",
    "setup_links",
    "password_links",
    "_sqlx_migrations",
    "sqlite_master",
];
/// Parts of statements, with the reasons why a statement that contains such a part may scan a whole table.
const WHOLE: &[&str] = &[
    // lists that an operator requests
    "FROM accounts a LEFT JOIN",
    "ORDER BY k.created_at, key_id",
    "FROM users ORDER BY",
    "FROM user_keys",
    "FROM lockouts LEFT JOIN",
    "UPDATE lockouts SET failures",
    "FROM plan_requests ORDER BY",
    "FROM waiting_line ORDER BY tag",
    // these statements only check whether a table has any row
    "LIMIT 1",
    "COUNT(*) FROM users",
    // run once an hour: lists all objects to which rows refer
    "SELECT object FROM key_rows UNION ALL",
    "SELECT object FROM ciphertexts",
    "SELECT object FROM session_values",
    "SELECT work_object FROM waiting_line",
    // sums over all key materials, and over all accounts with ciphertexts
    "SUM(public_key_bytes + eval_key_bytes)",
    "SUM(bytes), 0) AS BIGINT) FROM ciphertext_caches",
    // trials are few, because each lives half an hour
    "FROM trials t",
    // running work
    "FROM open_reservations o WHERE",
    // the audit of the ledger, which an operator starts
    "FROM transfers",
    "FROM invoices i WHERE",
    "FROM invoice_items WHERE item_id LIKE",
    "FROM ledger_balances",
    "FROM trials t",
    "FROM gate_usage u",
    "FROM office_usage u",
    "FROM office_totals UNION ALL",
    // lists that an operator requests
    "FROM key_labels",
    "FROM arithmetic_usage u",
    // run at a node's start, only on SQLite: moves all rows of the release before
    "FROM circuit_operations",
    "FROM arithmetic_operations",
    // run once an hour: deletes sessions that ended long ago. An index on `gates_used` would make every charge slower.
    "DELETE FROM gate_sessions WHERE COALESCE",
    // run once an hour. An index would make every taking of tokens slower.
    "DELETE FROM bursts",
];

fn may_read_all(sql: &str) -> bool {
    WHOLE.iter().any(|part| sql.contains(part))
}

fn is_query(sql: &str) -> bool {
    ["SELECT", "INSERT", "UPDATE", "DELETE"].iter().any(|verb| sql.starts_with(verb))
}

fn new_key<'a>(digest: &'a [u8; 32], key_id: &'a str, account_id: &'a str, environment: Environment) -> NewApiKey<'a> {
    NewApiKey {
        key_id,
        account_id,
        lineage_id: key_id,
        digest,
        key_prefix: "svc_test_0123456",
        role: Role::Developer,
        environment,
        office: true,
        plan: Plan::Free,
        created_at: 5,
        expires_at: Some(500),
    }
}

fn unit(n: u8) -> Unit {
    let (session_digest, account_id, op_id) = ([1; 32], "acct_1".to_owned(), format!("op_{n}"));
    let (digest, claim, answer) = ([n; 32], [n; 16], vec![1]);
    Unit {
        values: Vec::new(),
        waiting: None,
        operation: Some(NewOperation {
            op_id: op_id.clone(),
            account_id: account_id.clone(),
            node_id: "node_1".to_owned(),
            created_at: 5,
            of: NewOperationOf::Circuit(NewCircuitRun {
                session_digest,
                gates_total: 1,
                by_gate: "{}".to_owned(),
                levels: 1,
                plan: "{}".to_owned(),
            }),
        }),
        operation_end: Some(OperationEnd {
            op_id,
            status: OperationStatus::Completed,
            compute_us: 1,
            error: None,
            ended_at: 6,
            outcome: Outcome::Circuit(CircuitOutcome::default()),
            line: None,
        }),
        charge: Some(GateUsage {
            usage_id: format!("use_{n}"),
            transfer_id: Some(format!("t_{n}")),
            session_digest: [1 + n % 2; 32],
            account_id,
            environment: Environment::Live,
            gates: 1,
            by_gate: "{}".to_owned(),
            bootstrap_ops: 1,
            bootstraps_done: 1,
            cost_milli_yen: 1,
            compute_us: 1,
            created_at: 6,
        }),
        ciphertext: None,
        arithmetic_charge: None,
        posting: Some(Posting {
            transfer_id: format!("t_{n}"),
            account_id: "acct_1".to_owned(),
            allowance: Some(0),
            nano_usd_of_unit: 1,
            at: 6,
        }),
        counts: Some(OperationCounts {
            account_id: "acct_1".to_owned(),
            month: 1,
            operations: vec![("gate_and".to_owned(), 1), ("gate_or".to_owned(), 1)],
        }),
        event: None,
        keep: Some(KeptAnswer { digest, claim, answer, blob: None, held_until: 100, provisional: false }),
    }
}

fn reservation(n: u8, account: &str, wanted: Wanted) -> NewReservation {
    NewReservation {
        transfer_id: format!("t_{n}"),
        account_id: account.to_owned(),
        node_id: "node_1".to_owned(),
        month: 1,
        usd_milli_jpy: 1000,
        created_at: 5,
        wanted,
    }
}

fn claim(n: u8) -> NewClaim {
    let (account_id, node_id) = ("acct_1".to_owned(), "node_1".to_owned());
    NewClaim { digest: [n; 32], account_id, claim: [n; 16], node_id, generation: 1, held_until: 100, now: 1 }
}

/// Runs the statements that nodes use for encryption keys and ciphertexts.
async fn tour_of_keys(store: &Store) -> store::Result<()> {
    for (n, account_id) in [(1u8, "acct_1"), (3, "acct_3")] {
        let (material_id, key_id, upload_id) = (format!("mat_{n}"), format!("key_{n}"), format!("up_{n}"));
        let material = NewKeyMaterial { material_id: &material_id, account_id, node_id: "", key_secret: None, now: 5 };
        let upload = NewKeyUpload {
            upload_id: &upload_id,
            environment: Environment::Test,
            scheme: "ckks",
            params: "{}",
            material,
            expires_at: 50,
            keys_max: Some(9),
        };
        let seeded = Seeded { seed: [n; 32], sha256: [2; 32] };
        let public_key = NewPublicKey { params: "{}", fingerprint: &[1], object: &key_id, bytes: 5, seeded };
        let head = NewKeyHead { params: "{}", fingerprint: &[1], rows: 1, bytes: 5 };
        let row = KeyRowRecord {
            row_index: 0,
            kind: "relinearization".to_owned(),
            element: 0,
            level: 1,
            digit: 0,
            digits: 1,
            object: format!("row of {key_id}"),
            bytes: 5,
            sha256: vec![1],
            seed: Some(vec![1]),
        };
        let key = NewEncryptionKey {
            key_id: &key_id,
            account_id,
            environment: Environment::Test,
            scheme: "ckks",
            source: "upload",
            material_id: &material_id,
            digest: &[1; 32],
            upload_id: Some(&upload_id),
            keys_max: Some(9),
            now: 6,
        };
        store
            .write(async |tx| {
                tx.insert_key_upload(&upload).await?;
                tx.put_public_key(&material_id, &public_key, 5).await?;
                tx.put_key_head(&material_id, &head).await?;
                tx.add_key_rows(&material_id, 5, std::slice::from_ref(&row)).await?;
                tx.insert_encryption_key(&key).await
            })
            .await?;
        let ciphertext = NewCiphertext {
            ciphertext_id: format!("ct_{n}"),
            account_id: account_id.to_owned(),
            key_id: key_id.clone(),
            environment: Environment::Test,
            origin: "upload".to_owned(),
            slot_count: 32,
            level: 1,
            scale: 1.0,
            value_bound: 1.0,
            variance: 1.0,
            mixed: false,
            sources: None,
            object: format!("ct of {key_id}"),
            node_id: String::new(),
            bytes: 5,
            seeded: Some(seeded),
            bytes_max: Some(9),
            evicted: vec![format!("ct_{n}")],
            now: 6,
        };
        let arithmetic = Unit {
            operation: Some(NewOperation {
                op_id: format!("op_a{n}"),
                account_id: account_id.to_owned(),
                node_id: "node_1".to_owned(),
                created_at: 6,
                of: NewOperationOf::Arithmetic(NewArithmetic {
                    key_id: key_id.clone(),
                    environment: Environment::Test,
                    operation: "add".to_owned(),
                }),
            }),
            operation_end: Some(OperationEnd {
                op_id: format!("op_a{n}"),
                status: OperationStatus::Completed,
                compute_us: 1,
                error: None,
                ended_at: 6,
                outcome: Outcome::Arithmetic(ArithmeticOutcome::default()),
                line: None,
            }),
            ciphertext: Some(ciphertext),
            arithmetic_charge: Some(ArithmeticUsage {
                usage_id: format!("use_a{n}"),
                transfer_id: None,
                account_id: account_id.to_owned(),
                key_id: key_id.clone(),
                environment: Environment::Test,
                operation: "add".to_owned(),
                fcu: 1,
                cost_nano_usd: 2000,
                usd_milli_jpy: 150_000,
                compute_us: 1,
                created_at: 6,
            }),
            ..Unit::default()
        };
        store.submit(arithmetic).await?;
    }
    store.key_upload("acct_1", "up_1", 10).await?;
    store.key_material("acct_1", "mat_1").await?;
    store.key_rows("mat_1", 0, 9).await?;
    store.last_key_row("mat_1").await?;
    store.encryption_key("acct_1", "key_1").await?;
    store.account_of_encryption_key("key_1").await?;
    store.encryption_keys_page("acct_1", None, 9).await?;
    store.encryption_keys_page("acct_1", Some((0, "")), 9).await?;
    store.ciphertext("acct_1", "ct_1").await?;
    store.use_ciphertext("acct_1", "ct_1", 7).await?;
    store.ciphertexts_page("acct_1", "key_1", None, 9).await?;
    store.ciphertexts_page("acct_1", "key_1", Some((0, "")), 9).await?;
    store.eviction_plan("acct_1", 9, Some(9), &[]).await?;
    store.delete_ciphertext("acct_1", "none", 9).await?;
    store.arithmetic_usage_total("acct_1").await?;
    store.write(async |tx| tx.delete_encryption_key("acct_1", "key_1", 9).await).await?;
    let dropped = store.dropped_objects("", 9).await?;
    store.forget_dropped_objects(&dropped).await?;
    // statements of periodic work
    store.key_objects().await?;
    store.key_bytes().await?;
    store.ciphertext_objects().await?;
    store.ciphertext_bytes().await?;
    store.forget_ciphertexts(5, 9).await?;
    store.delete_key_upload("acct_1", "up_1", 9).await?;
    store.forget_key_uploads(60).await.map(drop)
}

/// Runs the statements that nodes use for webhooks and deliveries.
async fn tour_of_webhooks(store: &Store) -> store::Result<()> {
    let webhook = Webhook {
        webhook_id: "wh_1".to_owned(),
        account_id: "acct_1".to_owned(),
        url: "https://a".to_owned(),
        events: "key_created".to_owned(),
        sealed_secret: vec![1],
        created_at: 5,
    };
    let event = |n| NewEvent {
        event_id: format!("evt_{n}"),
        account_id: "acct_1".to_owned(),
        event_type: "key_created".to_owned(),
        body: "{}".to_owned(),
        created_at: 6,
    };
    let ended = |n| Attempt {
        webhook_id: "wh_1".to_owned(),
        event_id: format!("evt_{n}"),
        attempts_before: 0,
        status: DeliveryStatus::Succeeded,
        due_at: 0,
        status_code: 204,
        response_ms: 1,
        error: String::new(),
        delivered_at: 8,
    };
    let made = store
        .write(async |tx| {
            let made = tx.insert_webhook(&webhook, 20).await?;
            tx.change_webhook(&webhook).await?;
            tx.change_webhook_secret("acct_1", "wh_1", &[2]).await?;
            tx.emit(&[event(1), event(2)]).await?;
            tx.record_sent(&event(3), &[ended(3)]).await?;
            Ok::<_, store::Error>(made)
        })
        .await?;
    assert!(made && store.webhook("acct_1", "wh_1").await?.is_some());
    store.webhooks("acct_1").await?;
    store.webhooks_page("acct_1", None, 9).await?;
    store.webhooks_page("acct_1", Some((0, "")), 9).await?;
    assert!(store.has_due_deliveries(7).await?);
    let taken = store.take_deliveries(&Busy::default(), 7, 9, 9).await?;
    assert_eq!(taken.len(), 2);
    assert!(!store.has_due_deliveries(7).await?);
    store.give_deliveries_back(&taken[..1]).await?;
    let busy = Busy { webhooks: &["wh_1"], accounts: &["acct_2"] };
    assert_eq!(store.take_deliveries(&busy, 7, 9, 9).await?, []);
    store.record_attempts(&[ended(1), ended(2)]).await?;
    assert_eq!(store.delivery("acct_1", "wh_1", "evt_1").await?.map(|one| one.attempts), Some(1));
    assert_eq!(store.deliveries_of_account("acct_1", 9).await?.len(), 3);
    assert_eq!(store.deliveries_page("wh_1", None, 9).await?.total, 3);
    store.deliveries_page("wh_1", Some((0, "")), 9).await?;
    assert_eq!(store.pending_deliveries().await?, 0);
    store.forget_events(5).await?;
    assert!(store.write(async |tx| tx.delete_webhook("acct_1", "wh_1").await).await?);
    Ok(())
}

/// Runs the statements that nodes use for subscriptions, invoices, the provider's events, alerts and e-mails.
async fn tour_of_billing(store: &Store) -> store::Result<()> {
    let mut subscription = store.subscription("acct_1").await?.expect("an account");
    subscription.customer_id = "cus_1".to_owned();
    subscription.status = SubscriptionState::PastDue;
    (subscription.period_end, subscription.past_due_since) = (20, 3);
    let item = InvoiceItem {
        item_id: "item_1".to_owned(),
        account_id: "acct_1".to_owned(),
        month: 1,
        description: "words".to_owned(),
        amount_usd_cents: 5,
        invoice_id: String::new(),
        created_at: 2,
    };
    let invoice = Invoice {
        invoice_id: "inv_1".to_owned(),
        account_id: "acct_1".to_owned(),
        month: 1,
        status: InvoiceState::Open,
        amount_usd_cents: 5,
        period_start: 1,
        period_end: 2,
        issued_at: 3,
        paid_at: 0,
        url: String::new(),
        failures: 0,
        is_provided: false,
        due_at: 0,
    };
    let alert = Alert {
        account_id: "acct_1".to_owned(),
        period: 1,
        kind: AlertKind::Budget,
        threshold: 80,
        of_limit: 5,
        used: 4,
        created_at: 3,
    };
    let email = Email {
        email_id: "mail_1".to_owned(),
        sealed: Some(vec![1]),
        recipient: String::new(),
        subject: String::new(),
        body: String::new(),
        document_id: "inv_d".to_owned(),
        attempts: 0,
        created_at: 3,
    };
    let request = PlanRequest {
        account_id: "acct_1".to_owned(),
        plan: Plan::Enterprise,
        email: "a@b".to_owned(),
        requested_at: 1,
    };
    let event = ProviderEvent {
        event_id: "evt_1".to_owned(),
        event_type: "invoice.paid".to_owned(),
        body: "{}".to_owned(),
        sealed_body: None,
        attempts: 0,
        received_at: 3,
    };
    store
        .write(async |tx| {
            assert!(tx.put_subscription(&subscription).await?.is_some());
            tx.request_plan(&request).await?;
            tx.add_invoice_item(&item).await?;
            tx.add_alerts(std::slice::from_ref(&alert)).await?;
            tx.write_email(&email).await
        })
        .await?;
    assert_eq!(store.unbilled_accounts(1, "", 9).await?, ["acct_1"]);
    assert!(!store.has_open_reservations("acct_1", 1).await?);
    assert_eq!(store.open_items("acct_1", 1).await?.len(), 1);
    assert!(store.subscription_of_customer("cus_1").await?.is_some_and(|found| found.version == 1));
    assert_eq!(store.due_subscriptions(9, 3, 1, false, 9).await?.len(), 1);
    assert_eq!(store.subscriptions_after("", 9).await?.len(), 1);
    assert_eq!(store.plan_requests().await?.len(), 1);
    assert!(store.keep_provider_event(&event).await?);
    assert_eq!(store.due_provider_events(3, true, false, 9).await?.len(), 1);
    assert!(store.has_due_provider_events(3, true).await?);
    store.put_provider_event_off("evt_1", 4, "why").await?;
    assert_eq!(store.pending_provider_events().await?, 1);
    assert_eq!(store.untold_alerts(9).await?.len(), 1);
    assert_eq!(store.due_emails(3, 9).await?.len(), 1);
    assert!(store.take_letter(&email, 3).await?);
    store.note_email(&email, true, 0, "").await?;
    subscription.version = 1;
    subscription.status = SubscriptionState::Active;
    store
        .write(async |tx| {
            assert!(tx.put_subscription(&subscription).await?.is_some());
            tx.put_items_on("inv_1", &["item_1"]).await?;
            tx.put_invoice(&invoice, 5).await?;
            tx.end_invoice("inv_1", InvoiceState::Paid, 5, 5).await?;
            tx.note_notice("inv_1", "", "issued", 7).await?;
            tx.excuse("acct_1", 5, 5).await?;
            tx.grant_plan_instead("acct_1", Plan::Payg, Plan::Free).await?;
            tx.set_invoice_term("acct_1", Some(7)).await?;
            tx.tell_suspension("acct_1", true).await?;
            tx.close_month("acct_1", 1, 5).await?;
            tx.announce("fact", 5).await?;
            tx.finish_provider_event("evt_1").await?;
            tx.tell_alert(&alert).await
        })
        .await?;
    assert_eq!(store.invoices("acct_1", 9).await?.len(), 1);
    assert!(store.invoice("inv_1").await?.is_some());
    assert_eq!(store.provided_invoices(0, "", 9).await?.len(), usize::from(invoice.is_provided));
    assert_eq!(store.items_of_invoice("inv_1").await?.len(), 1);
    assert_eq!(store.owed_invoices("acct_1", 9).await?.len(), 0);
    assert_eq!(store.due_notices(9, 9).await?.len(), 0);
    assert_eq!(store.invoice_term("acct_1").await?, Some(7));
    assert_eq!(store.untold_suspensions(9).await?.len(), 0);
    assert_eq!(store.overdue_accounts(9).await?.len(), 0);
    assert_eq!(store.due_standings(9, 9).await?.len(), 0);
    store.contact_of_account("acct_1").await?;
    assert!(store.is_month_closed("acct_1", 1).await?);
    assert!(store.usage_bills_of(1, "", 9).await?.is_empty());
    assert_eq!(store.backlog().await?.stuck_events, 0);
    assert!(store.take_job("billing", "node_1", 5, 9).await?);
    assert!(!store.take_job("billing", "node_2", 5, 9).await?);
    store.note_job("billing", 3).await?;
    assert_eq!(store.job_done_through("billing").await?, 3);
    store.forget_provider_events(9).await?;
    store.forget_alerts(9).await?;
    store.forget_emails(9).await?;
    Ok(())
}

/// Runs all statements that nodes run repeatedly.
async fn tour(store: &Store) -> store::Result<()> {
    for (digest, account) in [([1; 32], "acct_1"), ([2; 32], "acct_2")] {
        store.insert_api_key(&new_key(&digest, account, account, Environment::Test)).await?;
    }
    let window = TrialWindow { network: &[3; 32], keys_max: 5, length: 50 };
    store.insert_trial_key(&new_key(&[3; 32], "ak_3", "acct_3", Environment::Trial), &[1; 52], window).await?;
    store.trial_keys("svc_test_0123456", 10).await?;
    let trial = |n| reservation(n, "acct_3", Wanted::TrialOperations { count: 1, max: 10 });
    store.would_reserve(&trial(9)).await?;
    store.reserve(trial(9)).await?;
    store.void_reservation("t_9", "acct_3", 9).await?;
    store.api_key(&[1; 32]).await?;
    store.keys_used(&[("acct_1".to_owned(), 9)]).await?;
    for n in 1..=2 {
        let session = NewGateSession {
            digest: &[n; 32],
            account_id: "acct_1",
            environment: Environment::Live,
            node_id: "node_1",
            preset: "fast_128",
            is_blind: true,
            imported: false,
            created_at: 10,
            expires_at: 20,
            sealed_id: b"sealed",
            open_max: Some(9),
            key: None,
        };
        store.write(async |tx| tx.insert_gate_session(&session).await).await?;
    }
    store.clock().await?;
    store.renew_lease("node_1", 15).await?;
    store.begin_generation("node_1", 1, 3_600_000_000).await?;
    store.renew_generation("node_1", 1, 3_600_000_000).await?;
    store.gate_session("acct_1", &[1; 32]).await?;
    fleet::tour(store).await?;
    store.gate_sessions_page("acct_1", "node_1", 11, None, 9).await?;
    store.gate_sessions_page("acct_1", "node_1", 11, Some((0, &[])), 9).await?;
    store.active_sessions_of("node_1").await?;
    // one reservation alone, then groups of two
    let fcu = Wanted::Fcu { fcu: 1, allowance: Some(0), beyond: BeyondAllowance::Charged(1) };
    store.would_reserve(&reservation(1, "acct_1", fcu)).await?;
    store.reserve(reservation(1, "acct_1", fcu)).await?;
    let of = |n, account| store.reserve(reservation(n, account, Wanted::MilliYen(1)));
    let (two, three, four, five) = tokio::join!(of(2, "acct_1"), of(3, "acct_1"), of(4, "acct_2"), of(5, "acct_2"));
    two.and(three).and(four).and(five)?;
    let (four, five) =
        tokio::join!(store.void_reservation("t_4", "acct_2", 9), store.void_reservation("t_5", "acct_2", 9));
    four.and(five)?;
    store.claim(claim(1)).await?;
    store.submit(unit(1)).await?;
    let (two, three) = tokio::join!(store.claim(claim(2)), store.claim(claim(3)));
    assert_eq!((two?, three?), (Claimed::Mine, Claimed::Mine));
    let (two, three) = tokio::join!(store.submit(unit(2)), store.submit(unit(3)));
    two.and(three)?;
    store.claim(claim(1)).await?;
    store.release_claim(&[9; 32], &[9; 16]).await?;
    store.drop_provisional_answer(&[9; 32], &[9; 16]).await?;
    store.operation("acct_1", "op_1").await?;
    store.usage_between("acct_1", 0, 9).await?;
    store.used_in_month("acct_1", 1).await?;
    let budget = MonthlyCap {
        account_id: "acct_1".to_owned(),
        cap_nano_usd: 1,
        hard_cap: true,
        allow_soft_overage: true,
        alert_email: String::new(),
        updated_at: 5,
    };
    store.write(async |tx| tx.set_monthly_cap(&budget).await).await?;
    store.monthly_cap("acct_1").await?;
    store.write(async |tx| tx.put_month_allowance("acct_1", 1, 5).await).await?;
    store.month_allowance("acct_1", 1).await?;
    store.write(async |tx| tx.forget_month_allowance("acct_1", 1).await).await?;
    store.reservations_of_node("node_1", "", 9).await?;
    store.forsaken_reservations("node_1", 5, 9).await?;
    store.audit_ledger(100).await?;
    store.gate_usage_totals("acct_1").await?;
    store.circuits_page("acct_1", None, 9).await?;
    store.netlist("acct_1", "none").await?;
    store.circuit_blobs().await?;
    assert_eq!(store.circuit_in_row(("", "")).await?, None);
    let none =
        CircuitInRow { account_id: "acct_1".to_owned(), name: "none".to_owned(), text: String::new(), sha256: vec![] };
    assert!(!store.put_netlist_out(&none, "object").await?);
    store.delete_circuit("acct_1", "none").await?;
    tour_of_keys(store).await?;
    tour_of_webhooks(store).await?;
    office::tour(store).await?;
    tour_of_billing(store).await?;
    store.database_id().await?;
    assert_eq!(store.recorded_move().await?, None);
    store.nodes_alive(9).await?;
    access::tour(store).await?;
    // statements of periodic work
    store.expire_gate_sessions("node_1", 30).await?;
    store.end_gate_sessions_of("acct_1", "node_1", 30).await?;
    store.lose_gate_sessions("node_1", 30).await?;
    store.lose_forsaken_sessions(30).await?;
    store.forget_gate_sessions(5).await?;
    store.forget_nodes(5).await?;
    store.take_over_operations().await?;
    store.fail_unfinished_operations("node_1", "", ["", ""], 30).await?;
    store.forget_operations(5).await?;
    store.forget_kept_answers(5).await?;
    store.kept_blobs().await?;
    store.forget_trial_windows(5).await?;
    store.ended_trials(1000, 9).await?;
    store.erase_trial("acct_3", 1000, 1000).await?;
    store.forget_erased_accounts(5).await?;
    let held = store.hold_move("another database", 5).await?.expect("no other process moves rows here");
    held.end(6).await?;
    Ok(())
}

#[tokio::test]
async fn queries_are_served_by_indices_sqlite() {
    let (folder, store) = new_store(Kind::Sqlite).await.unwrap();
    tour(&store).await.unwrap();
    let pool = SqlitePool::connect(&format!("sqlite:{}", folder.path().join("test.db").display())).await.unwrap();
    // a scan of a partial index, such as the index of open sessions, is allowed
    let partial = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %'";
    let partial: Vec<String> = sqlx::query_scalar(partial).fetch_all(&pool).await.unwrap();
    let mut explained = 0;
    for (sql, _) in statements::seen() {
        // statements with arrays run on PostgreSQL only
        if !is_query(sql) || sql.contains("unnest") || sql.contains("ANY(") || may_read_all(sql) {
            continue;
        }
        let plan = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"))).fetch_all(&pool).await.unwrap();
        let steps: Vec<String> = plan.iter().map(|step| step.get("detail")).collect();
        let is_partial = |of: &str| of.rsplit(' ').next().is_some_and(|index| partial.iter().any(|name| name == index));
        let whole = |step: &&String| step.strip_prefix("SCAN ").is_some_and(|of| !is_small(of) && !is_partial(of));
        assert_eq!(steps.iter().find(whole), None, "{sql}: {steps:#?}");
        explained += 1;
    }
    assert!(explained > 60, "{explained}");
}

#[tokio::test]
async fn queries_are_served_by_indices_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let Some(url) = Kind::Postgres.new_url(folder.path()) else { return };
    let store = Store::open(&url).await.unwrap();
    tour(&store).await.unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    run(&mut connection, "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan".to_owned()).await;
    let mut explained = 0;
    for (_, sql) in statements::seen() {
        if !is_query(sql) || sql.contains("sqlite_master") || may_read_all(sql) {
            continue;
        }
        run(&mut connection, format!("PREPARE asked AS {sql}")).await;
        let count = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'asked'";
        let count: i32 = sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap();
        let nulls = vec!["NULL"; count as usize].join(", ");
        let nulls = if count > 0 { format!("({nulls})") } else { nulls };
        let explain = AssertSqlSafe(format!("EXPLAIN EXECUTE asked{nulls}"));
        let plan = sqlx::raw_sql(explain).fetch_all(&mut connection).await.unwrap();
        let steps: Vec<String> = plan.iter().map(|step| step.get(0)).collect();
        let whole = |step: &&String| step.split_once("Seq Scan on ").is_some_and(|(_, of)| !is_small(of));
        assert_eq!(steps.iter().find(whole), None, "{sql}: {steps:#?}");
        run(&mut connection, "DEALLOCATE asked".to_owned()).await;
        explained += 1;
    }
    assert!(explained > 60, "{explained}");
}

/// Whether a scan reads a small table, or no table at all. `of`: the part of the query plan that describes the scan,
/// from the table's name on.
fn is_small(of: &str) -> bool {
    let table = of.split(' ').next().unwrap_or_default();
    // in SQLite's plans, the values in a statement appear as constant rows, and `json_each` as a virtual table
    SMALL.contains(&table) || of.contains("CONSTANT ROW") || of.contains("VIRTUAL TABLE")
}

async fn run(connection: &mut PgConnection, sql: String) {
    let done = sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(connection).await;
    assert!(done.is_ok(), "{sql}: {done:?}");
}
