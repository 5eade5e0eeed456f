//! Appearance of an issuer's documents.

use std::sync::Arc;

use crate::drawing::{Colour, Picture};

/// Default colour.
const COLOUR: Colour = Colour(0x2b, 0x4c, 0x7e);

/// Colour, logo, seal and footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Colour of the bar, the heads of tables and the sum.
    pub colour: Colour,
    /// Logo above the issuer's name.
    pub logo: Option<Arc<Picture>>,
    /// Seal over the end of the issuer's name.
    pub seal: Option<Arc<Picture>>,
    /// Text at the foot of each page.
    pub footer: String,
}

impl Default for Theme {
    fn default() -> Self {
        Theme { colour: COLOUR, logo: None, seal: None, footer: String::new() }
    }
}
