//! Invoices and bills of months, on both databases (readings W4, W8).

use super::*;

fn invoice(status: InvoiceState, failures: i64) -> Invoice {
    Invoice {
        invoice_id: "in_1".to_owned(),
        account_id: "acct_1".to_owned(),
        month: 24_000,
        status,
        amount_usd_cents: 500,
        period_start: 1,
        period_end: 2,
        issued_at: 3,
        paid_at: if status == InvoiceState::Paid { 4 } else { 0 },
        url: String::new(),
        failures,
        is_provided: true,
        due_at: 0,
    }
}

on_both! {
    async fn w4_two_nodes_that_write_an_invoice_in_the_other_order_lose_nothing(store: Store) {
        let put = async |invoice: Invoice| {
            store.write(async |tx| tx.put_invoice(&invoice, 5).await).await.unwrap();
            store.invoice("in_1").await.unwrap().unwrap()
        };
        put(invoice(InvoiceState::Open, 2)).await;
        assert_eq!(put(invoice(InvoiceState::Open, 0)).await.failures, 2, "failed payments are never fewer");
        assert_eq!(put(invoice(InvoiceState::Uncollectible, 0)).await.status, InvoiceState::Uncollectible);
        // a customer may pay an invoice that was given up
        let paid = put(invoice(InvoiceState::Paid, 0)).await;
        assert_eq!((paid.status, paid.paid_at, paid.failures), (InvoiceState::Paid, 4, 2));
        assert_eq!(put(invoice(InvoiceState::Open, 3)).await, paid, "an ended invoice is not open again");
    }

    async fn w8_a_bill_is_intended_once_and_its_attempts_are_counted(store: Store) {
        let item = |item_id: &str| InvoiceItem {
            item_id: item_id.to_owned(),
            account_id: "acct_1".to_owned(),
            month: 24_000,
            description: "words".to_owned(),
            amount_usd_cents: 900,
            invoice_id: String::new(),
            created_at: 1,
        };
        let intend = async |cents: i64, items: &[&str]| {
            let bill = UsageBillRecord {
                account_id: "acct_1".to_owned(),
                month: 24_000,
                cents,
                invoice_id: String::new(),
                attempt: 0,
                attempted_at: 0,
            };
            store.write(async |tx| tx.intend_usage_bill(&bill, items).await).await.unwrap();
            store.usage_bill("acct_1", 24_000).await.unwrap().unwrap()
        };
        store.write(async |tx| tx.add_invoice_item(&item("item_1")).await).await.unwrap();
        let mut bill = intend(950, &["item_1"]).await;
        assert!(store.has_bill_lines(&bill).await.unwrap());
        assert_eq!(store.open_items("acct_1", 24_000).await.unwrap(), []);
        assert_eq!(store.unbilled_accounts(24_000, "", 9).await.unwrap(), ["acct_1"], "the bill is not forgotten");
        // a line that comes later waits for the next bill, and the amount stays
        store.write(async |tx| tx.add_invoice_item(&item("item_2")).await).await.unwrap();
        assert_eq!(intend(1_850, &["item_2"]).await.cents, 950);
        assert_eq!(store.open_items("acct_1", 24_000).await.unwrap().len(), 1);
        // of two nodes that begin an attempt, one goes on
        (bill.attempt, bill.attempted_at) = (1, 5);
        assert!(store.put_usage_bill(&bill, 0).await.unwrap() && !store.put_usage_bill(&bill, 0).await.unwrap());
        bill.invoice_id = "in_1".to_owned();
        assert!(store.put_usage_bill(&bill, 1).await.unwrap());
        store
            .write(async |tx| {
                tx.put_bill_on_invoice(&bill).await?;
                tx.close_month("acct_1", 24_000, 6).await
            })
            .await
            .unwrap();
        assert_eq!(store.items_of_invoice("in_1").await.unwrap()[0].item_id, "item_1");
        assert!(!store.has_bill_lines(&bill).await.unwrap());
        assert_eq!(store.unbilled_accounts(24_000, "", 9).await.unwrap(), Vec::<String>::new());
    }

    async fn an_event_that_is_stuck_is_not_due_until_the_operator_says_so(store: Store) {
        let event = ProviderEvent {
            event_id: "evt_1".to_owned(),
            event_type: "invoice.paid".to_owned(),
            body: "{}".to_owned(),
            sealed_body: None,
            attempts: 0,
            received_at: 5,
        };
        assert!(store.keep_provider_event(&event).await.unwrap());
        store.put_provider_event_off("evt_1", 7, "why").await.unwrap();
        // an event about an invoice is not among the other events
        assert!(store.has_due_provider_events(9, true).await.unwrap());
        assert!(!store.has_due_provider_events(9, false).await.unwrap());
        assert_eq!(store.due_provider_events(9, false, true, 9).await.unwrap(), vec![]);
        let due = async |again: bool| store.due_provider_events(9, true, again, 9).await.unwrap().len();
        assert_eq!((due(false).await, due(true).await), (0, 1));
        store.set_provider_event_stuck("evt_1", "not readable").await.unwrap();
        assert!(due(true).await == 0 && !store.has_due_provider_events(9, true).await.unwrap());
        assert_eq!(store.backlog().await.unwrap().stuck_events, 1);
        let stuck = store.stuck_provider_events(9).await.unwrap();
        assert_eq!((stuck[0].attempts, stuck[0].error.as_str()), (2, "not readable"));
        assert!(store.retry_provider_event("evt_1", 8).await.unwrap());
        assert_eq!((due(false).await, store.drop_provider_event("evt_1").await.unwrap()), (1, false));
        store.set_provider_event_stuck("evt_1", "again").await.unwrap();
        assert!(store.drop_provider_event("evt_1").await.unwrap() && !store.retry_provider_event("evt_1", 9).await.unwrap());
        // the provider may repeat the event: it stays dropped
        assert!(!store.keep_provider_event(&event).await.unwrap() && due(false).await == 0);
    }
}
