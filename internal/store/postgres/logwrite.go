package postgres

import (
	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// logWriter collects the events of a transaction with their responses. The zero value is ready.
type logWriter struct {
	index.LogWriter
	responses []newResponse
	direct    bool // the index is written with the events
}

type newResponse struct {
	user   string
	at     posthaste.Position
	record []byte
}

// event logs an event of a message.
func (tx *tx) event(m *posthaste.Message, e posthaste.Event) posthaste.Position {
	e.Position = tx.nextPosition(m.User, m.ID.Slot())
	size := tx.log.add(m, &e)
	tx.addUsage(usageKey{m.User, usageLog, dayOf(e.Position)}, 1, size)
	return e.Position
}

// add adds an event, in order of positions, and returns its approximate size in bytes.
func (w *logWriter) add(m *posthaste.Message, e *posthaste.Event) (size int) {
	size = eventOverhead + w.Add(m, e)
	if e.Response != nil {
		data := record.AppendResponse(nil, e.Response)
		w.responses = append(w.responses, newResponse{m.User, e.Position, data})
		size += len(data)
	}
	return size
}

// write writes the events, and what they add to the index: at once, or beside the blocks.
func (w *logWriter) write(batch *pgx.Batch, usage map[usageKey]usageChange) {
	if len(w.Blocks) == 0 {
		return
	}
	var entries [][]byte
	if w.direct {
		entries = make([][]byte, len(w.Blocks))
		writePostings(batch, w.Postings)
	} else {
		entries = w.Entries()
	}
	number, bytes := make([]*int64, len(entries)), make([]*int64, len(entries))
	for i, b := range w.Blocks {
		of := usageKey{b.User, usageLog, dayOf(b.First)}
		if k, changed := usage[of]; changed && entries[i] != nil {
			number[i], bytes[i] = new(int64(k.entries)), new(int64(k.bytes))
			delete(usage, of)
		}
	}
	batch.Queue(`
		INSERT INTO posthaste.events (user_id, first, block, entries, number, bytes)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[])`,
		column(w.Blocks, func(b index.Block) string { return b.User }),
		column(w.Blocks, func(b index.Block) int64 { return int64(b.First) }),
		column(w.Blocks, func(b index.Block) []byte { return b.Data }), entries, number, bytes)
	if r := w.responses; len(r) > 0 {
		batch.Queue(`
			INSERT INTO posthaste.responses (user_id, first, record)
			SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[])`,
			column(r, func(r newResponse) string { return r.user }),
			column(r, func(r newResponse) int64 { return int64(r.at) }),
			column(r, func(r newResponse) []byte { return r.record }))
	}
}

func writePostings(batch *pgx.Batch, postings []index.Posting) {
	if len(postings) == 0 {
		return
	}
	batch.Queue(`
		INSERT INTO posthaste.postings (user_id, term, first, gaps)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[])`,
		column(postings, func(p index.Posting) string { return p.User }),
		column(postings, func(p index.Posting) int64 { return termColumn(p.Term) }),
		column(postings, func(p index.Posting) int64 { return int64(p.First) }),
		column(postings, func(p index.Posting) []byte { return p.Gaps }))
}

// scanBlock reads first and block, which is never empty.
func scanBlock(r pgx.CollectableRow) ([]posthaste.Event, error) { return scanEvents(r, nil) }

func scanEvents(r pgx.CollectableRow, wanted func(posthaste.Position) bool) ([]posthaste.Event, error) {
	var first int64
	var data []byte
	if err := r.Scan(&first, &data); err != nil {
		return nil, err
	}
	return index.DecodeBlock(posthaste.Position(first), data, wanted)
}
