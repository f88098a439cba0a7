package api

import (
	"context"
	"io"
	"sync"
)

// turn is a request's right to processors, which it has for a while and then again.
// Pages of logs are work for a processor and nothing else, so as many readers as there
// are processors would leave none for deliveries and for those who publish: what these
// wait for would be noticed only when the runtime looks for it, up to 10 ms later.
// Readers share fewer, and take turns.
type turn struct {
	ctx     context.Context
	readers Gate
	user    string
}

// turn returns the turn of a request.
func (r *request) turn() turn { return turn{r.Context(), r.readers, r.user} }

// do works within a turn.
func (t turn) do(work func() error) error {
	if err := t.readers.Enter(t.ctx, t.user, 1); err != nil {
		return err
	}
	defer t.readers.Leave(t.user, 1)
	return work()
}

// write lets work write within turns, and writes the pieces between them: out may
// block.
func (t turn) write(out io.Writer, work func(io.Writer) error) error {
	if err := t.readers.Enter(t.ctx, t.user, 1); err != nil {
		return err
	}
	piece := pieces.Get().(*[]byte)
	w := &turnWriter{turn: t, out: out, piece: (*piece)[:0]}
	defer func() {
		if cap(w.piece) <= 2*pieceBytes {
			*piece = w.piece
			pieces.Put(piece)
		}
	}()
	err := work(w)
	if w.lost {
		return err
	}
	t.readers.Leave(t.user, 1)
	if err == nil {
		_, err = out.Write(w.piece)
	}
	return err
}

// pieces are memory for pieces, which goes from one answer to the next.
var pieces = sync.Pool{New: func() any { return new([]byte) }}

// turnWriter gathers pieces while it has the turn, and writes each without it.
type turnWriter struct {
	turn
	out   io.Writer
	piece []byte
	lost  bool // the turn was not given again
}

// Write gathers what is written. After an error nothing may be written any more.
func (w *turnWriter) Write(p []byte) (int, error) {
	w.piece = append(w.piece, p...)
	if len(w.piece) < pieceBytes {
		return len(p), nil
	}
	w.readers.Leave(w.user, 1)
	_, err := w.out.Write(w.piece)
	w.piece = w.piece[:0]
	if err == nil {
		err = w.readers.Enter(w.ctx, w.user, 1)
	}
	w.lost = err != nil
	return len(p), err
}
