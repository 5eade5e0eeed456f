//! Users of a node under test.

use api::AccountId;
use control::admin::Operator;
use control::caller::Plan;
use control::caller::Role;
use serde_json::{Value, json};

use crate::TestServer;
use crate::http::Request;

/// The password of every user here.
pub const PASSWORD: &str = "correct horse battery staple";

/// A user who is signed in.
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
    /// Who an answer of `/auth/login` is about.
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
    /// The node's database in an operator's hands.
    pub async fn operator(&self) -> Operator {
        Operator::open(self.running().config()).await.expect("the database is there")
    }

    /// A new user with an account of their own, signed in.
    pub async fn user(&self, email: &str, role: Role) -> User {
        self.operator().await.create_user(email, PASSWORD, role, None).await.expect("a new user");
        let user = self.log_in(email).await;
        // nothing is in a test's way that it is not about
        self.operator().await.set_plan(&user.account, Plan::Enterprise).await.expect("the account is there");
        user
    }

    /// Signs a user in.
    pub async fn log_in(&self, email: &str) -> User {
        let body = json!({"email": email, "password": PASSWORD});
        User::of(&self.send(Request::post("/auth/login", &body)).await.ok(200))
    }
}
