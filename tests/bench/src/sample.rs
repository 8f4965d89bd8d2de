//! Measured numbers and their quantiles.

use serde::Serialize;

/// The numbers of a repeated measurement.
#[derive(Debug, Clone, Default)]
pub struct Sample(Vec<f64>);

/// The spread of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The first decile.
    pub p10: f64,
    /// The median.
    pub median: f64,
    /// The ninth decile.
    pub p90: f64,
    /// The number of measurements.
    pub count: usize,
}

impl Sample {
    /// Adds a number.
    pub fn push(&mut self, number: f64) {
        self.0.push(number);
    }

    /// The median; zero for an empty sample.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.quantile(50)
    }

    /// The quantile at `hundredths`; zero for an empty sample.
    #[must_use]
    pub fn quantile(&self, hundredths: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        let index = (last * hundredths.min(100) + 50) / 100;
        sorted.get(index).copied().unwrap_or_default()
    }

    /// The deciles, the median and the count.
    #[must_use]
    pub fn spread(&self) -> Spread {
        Spread { p10: self.quantile(10), median: self.median(), p90: self.quantile(90), count: self.0.len() }
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_members_of_the_sample() {
        let sample: Sample = (0..=10).rev().map(f64::from).collect();
        let spread = Spread { p10: 1.0, median: 5.0, p90: 9.0, count: 11 };
        assert_eq!(sample.spread(), spread);
        for (hundredths, expected) in [(0, 0.0), (100, 10.0), (1000, 10.0)] {
            assert!((sample.quantile(hundredths) - expected).abs() < f64::EPSILON, "{hundredths}");
        }
    }

    #[test]
    fn empty_sample_has_a_median_of_zero() {
        assert!(Sample::default().median().abs() < f64::EPSILON);
    }
}
