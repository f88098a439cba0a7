package postgres

import (
	"encoding/binary"
	"errors"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// The log is written in blocks: a commit's events of one user are one row, and so are the
// positions of those with one term. A busy user's commits are large, so its frequent terms
// cost little; an idle user has blocks of one.

// Bounds of a block, so that reading one event stays cheap, and of a posting, so that it fits
// an index page. Both end less than maxSpan after their first position, which bounds where to
// search.
const (
	maxBlockEvents  = 64
	maxBlockBytes   = 16 << 10
	maxPostingBytes = 1500
	maxSpan         = 1 << 32
)

// logWriter collects the events of a transaction. The zero value is ready.
type logWriter struct {
	blocks    []*block
	open      map[string]*block // that may grow, by user
	postings  []*posting
	growing   map[postingOf]*posting
	responses []newResponse
	terms     index.EventTerms
}

// block is consecutive events of a user on one day.
type block struct {
	user        string
	first, last posthaste.Position
	events      int
	data        []byte
}

// posting is the positions of a user's events with a term on one day.
type posting struct {
	postingOf
	first, last posthaste.Position
	gaps        []byte
}

type postingOf struct {
	user string
	day  int64
	term int64
}

type newResponse struct {
	user   string
	at     posthaste.Position
	record []byte
}

// event logs an event of a message.
func (tx *tx) event(m *posthaste.Message, e posthaste.Event) posthaste.Position {
	e.Position = tx.nextPosition(m.User)
	size := tx.log.add(m, &e)
	tx.addUsage(usageKey{m.User, usageLog, dayOf(e.Position)}, 1, size)
	return e.Position
}

// add adds an event, in order of positions, and returns its approximate size in bytes.
func (w *logWriter) add(m *posthaste.Message, e *posthaste.Event) (bytes int) {
	if w.open == nil {
		w.open, w.growing = map[string]*block{}, map[postingOf]*posting{}
	}
	bytes = eventOverhead + w.block(m.User, e.Position).add(e)
	if e.Response != nil {
		data := record.AppendResponse(nil, e.Response)
		w.responses = append(w.responses, newResponse{m.User, e.Position, data})
		bytes += len(data)
	}
	day := dayOf(e.Position)
	for _, t := range w.terms.Of(m, e.State) {
		w.post(postingOf{m.User, day, termColumn(t)}, e.Position)
	}
	return bytes
}

// block returns the block for an event at a position.
func (w *logWriter) block(user string, at posthaste.Position) *block {
	b := w.open[user]
	if b == nil || b.events == maxBlockEvents || len(b.data) >= maxBlockBytes || at-b.first >= maxSpan || dayOf(b.first) != dayOf(at) {
		b = &block{user: user, first: at, last: at}
		w.open[user] = b
		w.blocks = append(w.blocks, b)
	}
	return b
}

func (b *block) add(e *posthaste.Event) int {
	before := len(b.data)
	b.data = binary.AppendUvarint(b.data, uint64(e.Position-b.last))
	b.data = append(b.data, e.MessageID[:]...)
	stored := record.AppendEvent(nil, e)
	b.data = binary.AppendUvarint(b.data, uint64(len(stored)))
	b.data = append(b.data, stored...)
	b.last = e.Position
	b.events++
	return len(b.data) - before
}

// post adds a position to those of a term.
func (w *logWriter) post(of postingOf, at posthaste.Position) {
	p := w.growing[of]
	switch {
	case p == nil || len(p.gaps) >= maxPostingBytes || at-p.first >= maxSpan:
		p = &posting{postingOf: of, first: at, last: at, gaps: []byte{}}
		w.growing[of] = p
		w.postings = append(w.postings, p)
	case p.last != at: // else two terms of an event have one hash
		p.gaps = binary.AppendUvarint(p.gaps, uint64(at-p.last))
		p.last = at
	}
}

func (w *logWriter) write(batch *pgx.Batch) {
	if len(w.blocks) == 0 {
		return
	}
	batch.Queue(`
		INSERT INTO posthaste.events (user_id, first, block)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[])`,
		column(w.blocks, func(b *block) string { return b.user }),
		column(w.blocks, func(b *block) int64 { return int64(b.first) }),
		column(w.blocks, func(b *block) []byte { return b.data }))
	if r := w.responses; len(r) > 0 {
		batch.Queue(`
			INSERT INTO posthaste.responses (user_id, first, record)
			SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[])`,
			column(r, func(r newResponse) string { return r.user }),
			column(r, func(r newResponse) int64 { return int64(r.at) }),
			column(r, func(r newResponse) []byte { return r.record }))
	}
	batch.Queue(`
		INSERT INTO posthaste.postings (user_id, term, first, gaps)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[])`,
		column(w.postings, func(p *posting) string { return p.user }),
		column(w.postings, func(p *posting) int64 { return p.term }),
		column(w.postings, func(p *posting) int64 { return int64(p.first) }),
		column(w.postings, func(p *posting) []byte { return p.gaps }))
}

var errCorrupt = errors.New("postgres: a block of the log is damaged")

// scanBlock reads first and block, which is never empty.
func scanBlock(r pgx.CollectableRow) ([]posthaste.Event, error) { return scanEvents(r, everyPosition) }

func everyPosition(posthaste.Position) bool { return true }

func scanEvents(r pgx.CollectableRow, wanted func(posthaste.Position) bool) ([]posthaste.Event, error) {
	var first int64
	var data []byte
	if err := r.Scan(&first, &data); err != nil {
		return nil, err
	}
	return decodeEvents(first, data, wanted)
}

// decodeEvents returns the wanted events of a block in order, without responses.
func decodeEvents(first int64, data []byte, wanted func(posthaste.Position) bool) (events []posthaste.Event, err error) {
	position := posthaste.Position(first)
	for len(data) > 0 {
		gap, n := binary.Uvarint(data)
		if n <= 0 || len(data) < n+len(posthaste.MessageID{}) {
			return nil, errCorrupt
		}
		position += posthaste.Position(gap)
		id := posthaste.MessageID(data[n:])
		data = data[n+len(id):]
		size, n := binary.Uvarint(data)
		if n <= 0 || uint64(len(data)-n) < size {
			return nil, errCorrupt
		}
		stored := data[n : n+int(size)]
		data = data[n+int(size):]
		if !wanted(position) {
			continue
		}
		event, err := record.DecodeEvent(stored)
		if err != nil {
			return nil, err
		}
		event.Position, event.MessageID = position, id
		events = append(events, event)
	}
	return events, nil
}

// decodeGaps appends the positions of a posting, ascending.
func decodeGaps(positions []posthaste.Position, first posthaste.Position, gaps []byte) ([]posthaste.Position, error) {
	positions = append(positions, first)
	for len(gaps) > 0 {
		gap, n := binary.Uvarint(gaps)
		if n <= 0 {
			return nil, errCorrupt
		}
		first += posthaste.Position(gap)
		positions = append(positions, first)
		gaps = gaps[n:]
	}
	return positions, nil
}
