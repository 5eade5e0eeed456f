//! The error object of the platform specification, and the only table of error codes.

use serde::{Deserialize, Serialize};

// Specification, Errors; readings E4: `error` always has `code`, `message`, `request_id` and `documentation_url`.
/// The body of every error answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorEnvelope {
    /// The error.
    pub error: ErrorBody,
}

/// An error, for programs and for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// The error's code, for programs.
    pub code: String,
    /// What happened, for people.
    pub message: String,
    /// The request's id, to quote to support. Also in the header `X-Request-Id`.
    pub request_id: String,
    /// A page that explains the code.
    pub documentation_url: String,
    /// The parts of the request that are at fault, if they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Detail>,
}

/// A part of the request that is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Detail {
    /// Path of the member, such as `gates[3].b`.
    pub field: String,
    /// What is wrong with the member.
    pub issue: String,
}

macro_rules! codes {
    ($($variant:ident = $code:literal, $status:literal, $cause:literal, $fix:literal;)*) => {
        /// Every error code: the codes of the platform in the specification's order, then the codes of this service
        /// (readings section 15).
        ///
        /// The table below is the only place that knows a code's status, cause and fix; answers, the error pages and
        /// the OpenAPI page read it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Code {
            $(#[doc = $cause] #[serde(rename = $code)] $variant,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            /// The code's name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $code),* }
            }

            /// The HTTP status of the error.
            pub fn status(self) -> u16 {
                match self { $(Code::$variant => $status),* }
            }

            /// The cause of the error, in plain words.
            pub fn cause(self) -> &'static str {
                match self { $(Code::$variant => $cause),* }
            }

            /// The remedy: what the caller should do, in plain words.
            pub fn fix(self) -> &'static str {
                match self { $(Code::$variant => $fix),* }
            }
        }
    };
}

codes! {
    InvalidRequest = "INVALID_REQUEST", 400,
        "The request is not valid: unreadable JSON, a wrong content type, or a value outside the allowed set.",
        "The message names the member or header at fault. Compare the request with the API reference.";
    MissingAuthHeader = "MISSING_AUTH_HEADER", 401,
        "The request carries no Authorization header, or an empty one.",
        "Send `Authorization: Bearer <API key>`. An operator makes a key with `ango admin create-key`.";
    InvalidApiKey = "INVALID_API_KEY", 401,
        "The API key is malformed, unknown, revoked or expired.",
        "Check that the whole key was copied, including its prefix. A key is shown once: make a new key if it is lost.";
    InsufficientRole = "INSUFFICIENT_ROLE", 403,
        "The key is valid, but its role does not permit this endpoint.",
        "Use a key with a higher role. Viewers may only read. Uploads of circuits need the role developer; lists of all sessions need account_admin.";
    BruteForceLockout = "BRUTE_FORCE_LOCKOUT", 429,
        "There were too many invalid attempts with this key, for this user, or from this address.",
        "Wait as many seconds as the Retry-After header says (at most 15 minutes). Then use a valid key or password.";
    IpRateLimited = "IP_RATE_LIMITED", 429,
        "This address has asked for too many trial keys, or has signed up too often.",
        "Wait as many seconds as the Retry-After header says.";
    TrialOpsExhausted = "TRIAL_OPS_EXHAUSTED", 402,
        "The trial key has used its 10 operations, or the batch has more operations than the key has left.",
        "Use a key of an account, or send a smaller batch.";
    InvalidPlan = "INVALID_PLAN", 400,
        "The service has no subscription to this plan.",
        "Use one of the plans in the API reference.";
    BudgetHardCapHit = "BUDGET_HARD_CAP_HIT", 402,
        "The operation would exceed the account's monthly budget cap.",
        "Raise the cap, or wait for the first of the next month (UTC).";
    NoPaymentMethod = "NO_PAYMENT_METHOD", 402,
        "The account has no payment method, and this node offers no checkout.",
        "Store a payment method through checkout first.";
    ProviderUnavailable = "PROVIDER_UNAVAILABLE", 502,
        "The payment provider did not answer, or its answer was not valid.",
        "Send the request again. It is not executed twice.";
    ReturnUrlNotAllowed = "RETURN_URL_NOT_ALLOWED", 400,
        "The return URL does not belong to an allowed domain.",
        "Use an address of the service itself or of localhost, or ask the operator to allow the domain.";
    BillingPortalDisabled = "BILLING_PORTAL_DISABLED", 403,
        "The operator of this node has switched the billing portal off.",
        "Ask the operator about billing.";
    InvalidParams = "INVALID_PARAMS", 400,
        "A parameter is out of range or of the wrong type; or an evaluation key is damaged or has no known preset; or a circuit \
         is not a netlist, is too large, or does not fit its inputs.",
        "The message names the fault, and the line if the fault is in a netlist. Make evaluation keys with a client of this service or with tfhe-rs at a preset's dimensions.";
    InsufficientSecurity = "INSUFFICIENT_SECURITY", 400,
        "The parameters give less security than the requested level.",
        "Use parameters that `GET /api/v1/params/suggest` lists for the level.";
    KeyNotFound = "KEY_NOT_FOUND", 404,
        "There is no such key in this account.",
        "Check the identifier. A deleted key cannot be restored.";
    KeyNoLongerShown = "KEY_NO_LONGER_SHOWN", 410,
        "The key of this purchase was shown for 24 hours, and is not shown again.",
        "Use the key that was shown at that time. If it is lost, write to the operator.";
    PayloadTooLarge = "PAYLOAD_TOO_LARGE", 413,
        "A key, a ciphertext or the whole body is larger than allowed. Limits count decoded bytes.",
        "Send seeded (compressed) evaluation keys, at most 40 MB to eval-session and 10 MB to keys/upload. Send larger encryption keys to keys/uploads in parts. \
         A ciphertext in JSON has at most 2 MB: send larger ones as octets. Split large batches.";
    QuotaExceeded = "QUOTA_EXCEEDED", 402,
        "The account has reached a quota of its plan, such as open sessions, encryption keys, or stored circuits and results.",
        "Delete sessions, keys, circuits or results that are no longer needed, or change the plan.";
    CiphertextNotFound = "CIPHERTEXT_NOT_FOUND", 404,
        "A ciphertext id or a handle is unknown, belongs to another session, or was evicted.",
        "Upload the ciphertext again, or compute the result again. Handles end with their session.";
    MismatchedKey = "MISMATCHED_KEY", 400,
        "The ciphertexts were made under different keys.",
        "Combine only ciphertexts that were made under one key.";
    MismatchedLevel = "MISMATCHED_LEVEL", 400,
        "The ciphertexts are at different modulus levels or scales.",
        "Rescale the ciphertext at the higher level first.";
    NoiseBudgetExhausted = "NOISE_BUDGET_EXHAUSTED", 400,
        "The noise of the result would be too large to decrypt it, so it was not computed.",
        "Bootstrap the ciphertext, or use parameters with more depth.";
    InvalidOperation = "INVALID_OPERATION", 400,
        "The service has no operation of this name.",
        "Use an operation of the API reference.";
    MissingPlainOperand = "MISSING_PLAIN_OPERAND", 400,
        "The operation needs plain_operand.",
        "Send plain_operand with one number for each slot.";
    PolynomialTooLarge = "POLYNOMIAL_TOO_LARGE", 400,
        "The polynomial has more than 65 coefficients.",
        "Split the polynomial.";
    SessionNotFound = "SESSION_NOT_FOUND", 404,
        "There is no such gate session in this account: the id is wrong, the session was deleted, or the session ended more than a day ago.",
        "Open a new session and use its id.";
    SessionExpired = "SESSION_EXPIRED", 410,
        "The gate session has expired, or the node that held it stopped (`session lost`). The session's key is erased.",
        "Open a new session with the same evaluation key; ciphertexts under that key stay usable.";
    InvalidCiphertext = "INVALID_CIPHERTEXT", 400,
        "A ciphertext is damaged, is not base64, or does not belong to the session's parameters or key.",
        "Encrypt under the key of this session. The message or `details` names the operand.";
    InvalidGateOp = "INVALID_GATE_OP", 400,
        "`op` does not name a gate.",
        "Use NAND, AND, OR, XOR, NOR, XNOR, NOT or MUX, in upper case.";
    MissingOperand = "MISSING_OPERAND", 400,
        "An operand is missing: every gate but NOT needs `b`, and MUX needs `sel` too.",
        "Send the missing ciphertext.";
    BatchTooLarge = "BATCH_TOO_LARGE", 400,
        "The batch has more than 1024 gates.",
        "Send several smaller batches.";
    ValidationError = "VALIDATION_ERROR", 422,
        "The JSON is readable, but a required member is missing or a value has the wrong type.",
        "`details` names the member and the fault.";
    NotFound = "NOT_FOUND", 404,
        "The path does not exist, or no circuit has this name.",
        "Check the path: a trailing slash makes it a different path. The API reference lists all paths.";
    MethodNotAllowed = "METHOD_NOT_ALLOWED", 405,
        "The path exists, but does not accept this method.",
        "Use a method that the Allow header lists.";
    InvalidSessionToken = "INVALID_SESSION_TOKEN", 401,
        "The endpoint needs a session token of the dashboard. The token of the request is not a session token, has expired, or was revoked.",
        "Sign in again. API keys are not accepted here.";
    InvalidCredentials = "INVALID_CREDENTIALS", 401,
        "The e-mail or password is wrong, or the refresh token or setup link is unknown, used or too old.",
        "Check the e-mail and the password, or sign in again for new tokens. An operator makes a new setup link with `ango admin setup-link`.";
    RateLimited = "RATE_LIMITED", 429,
        "The account sent more requests than its plan allows per second, per day or per month.",
        "Wait as many seconds as the Retry-After header says.";
    Conflict = "CONFLICT", 409,
        "The request conflicts with the present state of the resource.",
        "The message names the conflict. Read the resource again.";
    IdempotencyKeyReused = "IDEMPOTENCY_KEY_REUSED", 422,
        "The Idempotency-Key was used before with another request.",
        "Use a new key for every new request.";
    IdempotencyInProgress = "IDEMPOTENCY_IN_PROGRESS", 409,
        "The first request with this Idempotency-Key is still running.",
        "Wait as many seconds as the Retry-After header says, then send the request again.";
    AccountSuspended = "ACCOUNT_SUSPENDED", 402,
        "An invoice of the account is unpaid and its grace period is over.",
        "Pay the open invoice.";
    InvalidSignature = "INVALID_SIGNATURE", 400,
        "The signature of an event is missing or wrong.",
        "Sign with the configured secret, and check that the sender's clock is right.";
    SecretKeyRejected = "SECRET_KEY_REJECTED", 400,
        "The request contains a secret key. It was refused and its bytes were overwritten.",
        "Never send a secret key to a server. Upload the evaluation key. Treat the secret key as exposed and make a new one.";
    OperationNotFound = "OPERATION_NOT_FOUND", 404,
        "There is no such operation in this account, or its record has expired.",
        "Check the identifier.";
    WebhookNotFound = "WEBHOOK_NOT_FOUND", 404,
        "There is no such webhook in this account.",
        "Check the identifier.";
    DeliveryNotFound = "DELIVERY_NOT_FOUND", 404,
        "There is no such delivery under this webhook, or its record has expired.",
        "Check the identifier.";
    InvalidWebhookUrl = "INVALID_WEBHOOK_URL", 400,
        "The webhook URL is not a plain HTTPS address.",
        "Use an HTTPS URL of at most 2048 characters without user name.";
    WebhookUrlNotAllowed = "WEBHOOK_URL_NOT_ALLOWED", 400,
        "The webhook URL points to an address that is not public.",
        "Use a public address.";
    WebhookLimitReached = "WEBHOOK_LIMIT_REACHED", 409,
        "The account has reached its limit of webhooks.",
        "Delete a webhook first.";
    FeatureDisabled = "FEATURE_DISABLED", 403,
        "The operator of this node has switched this feature off.",
        "Use another endpoint (for gate sessions `POST /api/v1/tfhe/eval-session`), or ask the operator.";
    UpstreamUnavailable = "UPSTREAM_UNAVAILABLE", 502,
        "A service that the node depends on did not answer.",
        "Try again later.";
    ServiceUnavailable = "SERVICE_UNAVAILABLE", 503,
        "The node cannot do this now. The node is too busy or has no memory left, its database does not answer, the work did not finish in time, the node is shutting down, or the session or answer is on another node. Nothing was charged.",
        "Try again after as many seconds as the Retry-After header says. The message names the cause. With several nodes, use a balancer that sends all requests of a session to one node.";
    InternalError = "INTERNAL_ERROR", 500,
        "The node failed. Nothing was charged.",
        "Try again. If it fails again, report the request id to the operator.";
}

impl Code {
    /// Finds the code by its name on the wire.
    pub fn from_name(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_name_and_explains_itself() {
        for &code in Code::ALL {
            assert_eq!(Code::from_name(code.as_str()), Some(code));
            assert!((400..=503).contains(&code.status()));
            assert!(code.cause().ends_with(['.', ')']) && code.fix().ends_with(['.', ')']), "{}", code.as_str());
        }
    }

    #[test]
    fn an_error_without_details_has_exactly_the_four_members() {
        let body = ErrorBody {
            code: "NOT_FOUND".into(),
            message: "m".into(),
            request_id: "r".into(),
            documentation_url: "u".into(),
            details: Vec::new(),
        };
        assert_eq!(
            serde_json::to_string(&body).unwrap(),
            r#"{"code":"NOT_FOUND","message":"m","request_id":"r","documentation_url":"u"}"#
        );
    }
}
