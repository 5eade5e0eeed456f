//! Old rows are removed in portions, and all of them (readings H11), on both databases.

use super::*;

on_both! {
    async fn more_events_than_a_portion_are_removed_with_their_deliveries_and_pending_ones_stay(store: Store) {
        let account = "acct_1";
        let webhook = Webhook {
            webhook_id: "wh_1".to_owned(),
            account_id: account.to_owned(),
            url: "https://receiver.example".to_owned(),
            events: String::new(),
            sealed_secret: vec![1],
            created_at: 1,
        };
        store.write(async |tx| tx.insert_webhook(&webhook, 9).await).await.unwrap();
        let event = |number: i64| NewEvent {
            event_id: format!("evt_{number}"),
            account_id: account.to_owned(),
            event_type: "key_created".to_owned(),
            body: "{}".to_owned(),
            created_at: number,
        };
        let events: Vec<NewEvent> = (0..2_500).map(event).collect();
        store.write(async |tx| tx.emit(&events).await).await.unwrap();
        assert_eq!(store.pending_deliveries().await.unwrap(), 2_500);
        assert_eq!(store.forget_events(2_400).await.unwrap(), 0);
        let ended = |event: &NewEvent| Attempt {
            webhook_id: webhook.webhook_id.clone(),
            event_id: event.event_id.clone(),
            attempts_before: 0,
            status: if event.created_at % 2 == 0 { DeliveryStatus::Succeeded } else { DeliveryStatus::Failed },
            due_at: 0,
            status_code: 200,
            response_ms: 1,
            error: String::new(),
            delivered_at: 3_000,
        };
        // a node that was away for long still has the oldest 100 deliveries to make
        let attempts: Vec<Attempt> = events[100..].iter().map(ended).collect();
        for some in attempts.chunks(500) {
            store.record_attempts(some).await.unwrap();
        }
        assert_eq!(store.forget_events(2_400).await.unwrap(), 2_300);
        assert_eq!(store.forget_events(2_400).await.unwrap(), 0);
        assert_eq!(store.pending_deliveries().await.unwrap(), 100);
    }

    async fn more_provider_events_than_a_portion_are_removed_and_pending_ones_stay(store: Store) {
        for number in 0..2_100 {
            let event = ProviderEvent {
                event_id: format!("evt_{number}"),
                event_type: "invoice.paid".to_owned(),
                body: "{}".to_owned(),
            sealed_body: None,
                attempts: 0,
                received_at: number,
            };
            store.keep_provider_event(&event).await.unwrap();
        }
        store
            .write(async |tx| {
                for number in 0..2_050 {
                    tx.finish_provider_event(&format!("evt_{number}")).await?;
                }
                Ok::<_, Error>(())
            })
            .await
            .unwrap();
        assert_eq!(store.forget_provider_events(9_999).await.unwrap(), 2_050);
        assert_eq!(store.pending_provider_events().await.unwrap(), 50);
    }
}
