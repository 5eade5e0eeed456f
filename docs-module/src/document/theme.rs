//! What an issuer's documents look like.

use std::sync::Arc;

use crate::drawing::{Colour, Picture};

/// Colour of documents whose issuer names none.
const COLOUR: Colour = Colour(0x2b, 0x4c, 0x7e);

/// Colour, pictures and the text below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Of the bar, the heads of tables and the sum.
    pub colour: Colour,
    /// Above the issuer's name.
    pub logo: Option<Arc<Picture>>,
    /// Over the end of the issuer's name.
    pub seal: Option<Arc<Picture>>,
    /// At the foot of each page.
    pub footer: String,
}

impl Default for Theme {
    fn default() -> Self {
        Theme { colour: COLOUR, logo: None, seal: None, footer: String::new() }
    }
}
