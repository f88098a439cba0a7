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

// newBlock is a row of events.
type newBlock struct {
	index.Block
	entries       []byte
	number, bytes *int64
}

// take returns the blocks to be written, with their index entries and their share of the usage, which it
// removes from there, unless the index is written at once.
func (w *logWriter) take(usage map[usageKey]usageChange) []newBlock {
	blocks := column(w.Blocks, func(b index.Block) newBlock { return newBlock{Block: b} })
	if w.direct {
		return blocks
	}
	for i, entries := range w.Entries() {
		b := &blocks[i]
		b.entries = entries
		of := usageKey{b.User, usageLog, dayOf(b.First)}
		if k, changed := usage[of]; changed && entries != nil {
			b.number, b.bytes = new(int64(k.entries)), new(int64(k.bytes))
			delete(usage, of)
		}
	}
	return blocks
}

func blockColumns(blocks []newBlock) []any {
	return []any{
		column(blocks, func(b newBlock) string { return b.User }),
		column(blocks, func(b newBlock) int64 { return int64(b.First) }),
		column(blocks, func(b newBlock) []byte { return b.Data }),
		column(blocks, func(b newBlock) []byte { return b.entries }),
		column(blocks, func(b newBlock) *int64 { return b.number }),
		column(blocks, func(b newBlock) *int64 { return b.bytes }),
	}
}

// write writes the responses, and the index if that is written at once.
func (w *logWriter) write(batch *pgx.Batch) {
	if w.direct {
		writePostings(batch, w.Postings)
	}
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
