package postgres

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store"
)

// putRecord writes a record. due is when it is found among those of all users, nil: never.
func (t *userTx) putRecord(of recordOf, value []byte, due *int64) {
	if value == nil {
		value = []byte{} // nil is for none
	}
	t.writes++
	r := t.changedRecord(of)
	r.value, r.due = value, due
}

func (t *userTx) deleteRecord(of recordOf) {
	t.writes++
	t.changedRecord(of).value = nil
	if of.kind == store.ItemFlowKey {
		delete(t.keys, name{of.user, of.key})
	}
}

// changedRecord returns a record that is to be written.
func (t *userTx) changedRecord(of recordOf) *storedRecord {
	r := t.readCache.records[of]
	if r == nil {
		r = &storedRecord{recordOf: of}
		t.readCache.records[of] = r
	}
	if !r.changed {
		r.changed = true
		t.writeBatch.records = append(t.writeBatch.records, r)
	}
	return r
}

// writeRecords writes the changed records, the last value of each.
func writeRecords(batch *pgx.Batch, changed []*storedRecord) {
	var put []*storedRecord
	var gone []recordOf
	for _, r := range changed {
		if r.changed = false; r.value == nil {
			gone = append(gone, r.recordOf)
		} else {
			put = append(put, r)
		}
	}
	if len(gone) > 0 {
		batch.Queue(deleteRecords, recordColumns(gone)...)
	}
	if len(put) > 0 {
		batch.Queue(`
			INSERT INTO posthaste.records (user_id, kind, key, value, due)
			SELECT * FROM unnest($1::text[], $2::smallint[], $3::bytea[], $4::bytea[], $5::bigint[])
			ON CONFLICT (user_id, kind, key) DO UPDATE SET value = excluded.value, due = excluded.due`,
			append(recordColumns(column(put, func(r *storedRecord) recordOf { return r.recordOf })),
				column(put, func(r *storedRecord) []byte { return r.value }),
				column(put, func(r *storedRecord) *int64 { return r.due }))...)
	}
}

// termColumn returns a term as it is stored: its field, and the 56 bits of its hash.
func termColumn(t store.Term) int64 { return int64(uint64(t.Field)<<56 | t.Hash) }

func termColumns(terms []store.Term) []int64 { return column(terms, termColumn) }

// termOf is a term of a record whose key is a position.
type termOf struct {
	user string
	kind store.ItemKind
	at   int64
	term int64
}

// termRows are the columns of terms, for unnest.
func termRows(of []termOf) []any {
	return []any{
		column(of, func(t termOf) string { return t.user }),
		column(of, func(t termOf) int16 { return int16(t.kind) }),
		column(of, func(t termOf) int64 { return t.term }),
		column(of, func(t termOf) int64 { return t.at }),
	}
}

// writeTerms adds and removes what records are found by.
func writeTerms(batch *pgx.Batch, terms map[termOf]bool) {
	fresh, gone := slices.Collect(maps.Keys(terms)), slices.Collect(maps.Keys(terms))
	fresh = slices.DeleteFunc(fresh, func(t termOf) bool { return !terms[t] })
	gone = slices.DeleteFunc(gone, func(t termOf) bool { return terms[t] })
	if len(gone) > 0 {
		batch.Queue(deleteTerms, termRows(gone)...)
	}
	if len(fresh) > 0 {
		batch.Queue(`
			INSERT INTO posthaste.terms (user_id, kind, term, at)
			SELECT * FROM unnest($1::text[], $2::smallint[], $3::bigint[], $4::bigint[]) ON CONFLICT DO NOTHING`, termRows(fresh)...)
	}
}
