//! Users of a node under test.

use api::AccountId;
use control::admin::Operator;
use control::caller::Plan;
use control::caller::Role;
use serde_json::{Value, json};

use crate::TestServer;
use crate::http::Request;

/// The password of every user in these tests.
pub const PASSWORD: &str = "correct horse battery staple";

/// A signed-in user.
#[derive(Clone, Debug)]
pub struct User {
    /// The user's id: `usr_...`.
    pub user_id: String,
    /// The id of the user's account.
    pub account: AccountId,
    /// A session token.
    pub token: String,
    /// A refresh token.
    pub refresh: String,
}

impl User {
    /// Reads the user from an answer of `/auth/login`.
    pub fn of(signed_in: &Value) -> User {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        User {
            user_id: text(&signed_in["user"]["user_id"]),
            account: text(&signed_in["user"]["account_id"]).parse().expect("an account"),
            token: text(&signed_in["access_token"]),
            refresh: text(&signed_in["refresh_token"]),
        }
    }
}

impl TestServer {
    /// Opens an operator's access to the node's database.
    pub async fn operator(&self) -> Operator {
        let operator = Operator::open(self.running().config()).await.expect("the operator can open the database");
        operator.with_clock(&self.clock)
    }

    /// Creates a user with a new account, and signs the user in.
    pub async fn user(&self, email: &str, role: Role) -> User {
        self.operator().await.create_user(email, PASSWORD, role, None).await.expect("a new user");
        let user = self.log_in(email).await;
        // plan `enterprise`, so that no limit stops a test about something else
        self.operator().await.set_plan(&user.account, Plan::Enterprise).await.expect("the account exists");
        user
    }

    /// Signs a user in.
    pub async fn log_in(&self, email: &str) -> User {
        let body = json!({"email": email, "password": PASSWORD});
        User::of(&self.send(Request::post("/auth/login", &body)).await.ok(200))
    }
}
