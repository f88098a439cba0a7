package postgres

import "posthaste/internal/store"

// termColumn returns a term as it is stored: its field, and the 56 bits of its hash.
func termColumn(t store.Term) int64 { return int64(uint64(t.Field)<<56 | t.Hash) }

func termColumns(terms []store.Term) []int64 { return column(terms, termColumn) }
