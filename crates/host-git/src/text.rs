//! Characters in a task's texts that are shown to people.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

/// Whether a character is invisible, or moves or hides its surroundings.
pub(crate) fn is_unseen(c: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator};
    matches!(c.general_category(), Control | Format | LineSeparator | ParagraphSeparator)
}
