"""From records to verdicts and pictures, for any study: statistics, claims, figures, words for documents."""
