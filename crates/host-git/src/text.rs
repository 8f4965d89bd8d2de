//! Characters that a task writes into texts for people.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

/// Whether nobody sees it, or it moves or hides what is around it.
pub(crate) fn is_unseen(c: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator};
    matches!(c.general_category(), Control | Format | LineSeparator | ParagraphSeparator)
}
