//! Aligned columns of text.

/// The rows with aligned cells. Widths are in characters; the last column is not padded.
pub(crate) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        // A format string pads to 65,535 characters at most, and panics beyond.
        let pad = |(cell, width): (&String, &usize)| {
            format!("{cell}{}", " ".repeat(width.saturating_sub(cell.chars().count())))
        };
        row.iter().zip(&widths).map(pad).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned() {
        let rows = [["NAME", "KIND"], ["a-long-name", "x"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows), ["NAME         KIND", "a-long-name  x"]);
        assert!(aligned(&[]).is_empty());
    }

    #[test]
    fn very_long_cells_are_aligned() {
        let long = "x".repeat(70_000);
        let rows = [vec![long.clone(), "a".to_owned()], vec!["b".to_owned(), "c".to_owned()]];
        let expected = [format!("{long}  a"), format!("b{}  c", " ".repeat(69_999))];
        assert!(aligned(&rows) == expected, "padded to the longest");
    }
}
