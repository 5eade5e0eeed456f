//! Errors of copying the payment provider's state.

use super::payments::PaymentError;
use crate::web::error::ApiError;

/// Why an object's state could not be copied from the provider.
#[derive(Debug)]
pub enum SyncError {
    /// The provider.
    Provider(PaymentError),
    /// The database.
    Store(store::Error),
    /// Anything else.
    Other(ApiError),
}

impl std::fmt::Display for SyncError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SyncError::Provider(error) => error.fmt(f),
            SyncError::Store(error) => error.fmt(f),
            SyncError::Other(error) => f.write_str(&error.message),
        }
    }
}

impl std::error::Error for SyncError {}

impl From<PaymentError> for SyncError {
    fn from(error: PaymentError) -> SyncError {
        SyncError::Provider(error)
    }
}

impl From<store::Error> for SyncError {
    fn from(error: store::Error) -> SyncError {
        SyncError::Store(error)
    }
}

impl From<ApiError> for SyncError {
    fn from(error: ApiError) -> SyncError {
        SyncError::Other(error)
    }
}

impl From<SyncError> for ApiError {
    fn from(error: SyncError) -> ApiError {
        match error {
            SyncError::Provider(error) => error.into(),
            SyncError::Store(error) => error.into(),
            SyncError::Other(error) => error,
        }
    }
}
