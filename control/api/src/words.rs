//! Enums whose variants each have a word. The word is the same on the wire, in columns of the database and in settings.

/// An enum whose variants each have a word.
pub trait Word: Copy + 'static {
    /// Name of the enum in messages, such as `role`.
    const NAME: &'static str;

    /// Finds the variant that has this word.
    fn of_word(word: &str) -> Option<Self>;
}

/// Gives each variant of an enum its word: defines `ALL`, `as_str` and `from_name`, and implements [`Word`].
#[macro_export]
macro_rules! words {
    ($type:ident, $name:literal, { $($variant:ident = $word:literal),* $(,)? }) => {
        impl $type {
            /// All variants, in the order of their declaration.
            pub const ALL: [$type; [$($word),*].len()] = [$($type::$variant),*];

            /// The variant's word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($type::$variant => $word),*
                }
            }

            /// Finds the variant that has this word.
            pub fn from_name(word: &str) -> Option<$type> {
                match word {
                    $($word => Some($type::$variant),)*
                    _ => None,
                }
            }
        }

        impl $crate::Word for $type {
            const NAME: &'static str = $name;

            fn of_word(word: &str) -> Option<$type> {
                $type::from_name(word)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::circuits::OperationStatus;
    use crate::params::SecurityLevel;
    use crate::{Environment, KeyStatus, Plan, Role};

    #[test]
    fn every_variant_is_found_by_its_word_which_is_also_that_of_json() {
        macro_rules! check {
            ($($type:ident),*) => {$(
                for variant in $type::ALL {
                    assert_eq!($type::from_name(variant.as_str()), Some(variant));
                    assert_eq!(serde_json::to_value(variant).unwrap(), variant.as_str());
                }
                assert_eq!($type::from_name(""), None);
            )*};
        }
        check!(Environment, KeyStatus, OperationStatus, Plan, Role, SecurityLevel);
    }
}
