"""RankLedger."""
