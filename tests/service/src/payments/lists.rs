//! The lists of the provider.

use serde_json::{Value, json};

use super::account::{Account, Form, Refusal, refusal};

/// Largest number of objects in a page of a list.
const PAGE_MAX: usize = 3;

impl Account {
    pub(super) fn found_customers(&self, form: &Form) -> Result<Value, Refusal> {
        form.only(&["query", "limit"])?;
        let account =
            form.need("query")?.strip_prefix("metadata['account_id']:'").and_then(|rest| rest.strip_suffix('\''));
        let account = account.ok_or_else(|| refusal(400, "parameter_invalid", "query"))?;
        let is_found = |one: &Value| !self.search_lags && one["metadata"]["account_id"] == account;
        let data = self.all("cus_").into_iter().filter(is_found).collect::<Vec<_>>();
        Ok(json!({"object": "search_result", "has_more": false, "data": data}))
    }

    pub(super) fn subscriptions_of(&self, form: &Form) -> Result<Value, Refusal> {
        form.only(&["customer", "limit", "starting_after"])?;
        let is_listed = |one: &Value| {
            one["object"] == "subscription"
                && form.get("customer").is_none_or(|customer| one["customer"] == customer)
                && one["status"] != "canceled"
        };
        self.list("sub_", form, is_listed)
    }

    pub(super) fn customers(&self, form: &Form) -> Result<Value, Refusal> {
        form.only(&["limit", "starting_after"])?;
        self.list("cus_", form, |_| true)
    }

    /// Makes a page of objects, the newest first. Pages hold three objects at most, so that tests with few objects have
    /// several pages.
    fn list(&self, prefix: &str, form: &Form, is_listed: impl Fn(&Value) -> bool) -> Result<Value, Refusal> {
        let limit: usize = form.need("limit")?.parse().expect("a number");
        // the newest first; only a page is copied, because there may be many objects
        let mut all: Vec<&Value> = self.objects_with(prefix).filter(|one| is_listed(one)).collect();
        all.reverse();
        if let Some(after) = form.get("starting_after") {
            let at = all.iter().position(|one| one["id"] == after);
            let at = at.ok_or_else(|| refusal(400, "resource_missing", "starting_after"))?;
            all.drain(..=at);
        }
        let size = limit.min(PAGE_MAX);
        let has_more = all.len() > size;
        all.truncate(size);
        Ok(json!({"object": "list", "has_more": has_more, "data": all}))
    }

    pub(super) fn invoices_of(&self, form: &Form) -> Result<Value, Refusal> {
        form.only(&["customer", "created[gte]", "limit", "starting_after"])?;
        let since = form.need("created[gte]")?.parse::<i64>().expect("seconds");
        let is_listed = |one: &Value| {
            form.get("customer").is_none_or(|customer| one["customer"] == customer)
                && one["created"].as_i64().is_some_and(|at| at >= since)
        };
        self.list("in_", form, is_listed)
    }
}
