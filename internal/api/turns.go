package api

import (
	"bytes"
	"context"
	"io"
	"sync"
)

// Turns has those who read take turns. Do runs work when the user's turn has come, and
// returns what it returns, or an Error that says why there was no turn.
//
// Pages are work for a processor and nothing else, so as many readers as there are
// processors would leave none for deliveries and for those who publish.
type Turns interface {
	Do(ctx context.Context, user string, work func() error) error
}

// allAtOnce are turns for everybody at the same time.
type allAtOnce struct{}

func (allAtOnce) Do(_ context.Context, _ string, work func() error) error { return work() }

// turn is the right of a request to work, which it has for a while and then again.
type turn func(work func() error) error

// turn returns the turn of a request.
func (r *request) turn() turn {
	return func(work func() error) error { return r.readers.Do(r.Context(), r.user, work) }
}

// list is a list to be written, whose items may be many and large.
type list struct {
	head, comma, tail string // before the items, between them, and behind them
	length            int
	item              func(i int) []byte // valid until the next call
}

// pieces are memory for pieces, which goes from one answer to the next.
var pieces = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// write encodes a list in turns, a piece in each, and writes the pieces between them: out
// may block.
func (t turn) write(out io.Writer, l list) error {
	piece := pieces.Get().(*bytes.Buffer)
	defer func() {
		if piece.Cap() <= 4*pieceBytes { // a single large item is not kept for all that follow
			pieces.Put(piece)
		}
	}()
	for next := 0; ; {
		piece.Reset()
		err := t(func() error {
			next = l.encode(piece, next)
			return nil
		})
		if err != nil {
			return err
		}
		if _, err := out.Write(piece.Bytes()); err != nil {
			return err
		}
		if next == l.length {
			return nil
		}
	}
}

// encode appends items to a piece until it is full, and what stands around them. It
// returns the next item.
func (l list) encode(piece *bytes.Buffer, next int) int {
	if next == 0 {
		piece.WriteString(l.head)
	}
	for ; next < l.length && piece.Len() < pieceBytes; next++ {
		if next > 0 {
			piece.WriteString(l.comma)
		}
		piece.Write(l.item(next))
	}
	if next == l.length {
		piece.WriteString(l.tail)
	}
	return next
}
