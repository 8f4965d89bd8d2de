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
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
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
}
