package api

import (
	"bytes"
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
	w := &turnWriter{turn: t, out: out, piece: pieces.Get().(*bytes.Buffer)}
	defer w.close()
	if err := w.enter(); err != nil {
		return err
	}
	if err := work(w); err != nil {
		return err
	}
	return w.send()
}

// pieces are memory for pieces, which goes from one answer to the next.
var pieces = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// turnWriter gathers pieces while it has the turn, and writes each without it.
type turnWriter struct {
	turn
	out   io.Writer
	piece *bytes.Buffer
	held  bool // the turn
}

// Write gathers what is written. After an error nothing may be written any more.
func (w *turnWriter) Write(p []byte) (int, error) {
	w.piece.Write(p)
	if w.piece.Len() < pieceBytes {
		return len(p), nil
	}
	if err := w.send(); err != nil {
		return 0, err
	}
	return len(p), w.enter()
}

// send gives the turn back and writes the piece.
func (w *turnWriter) send() error {
	w.leave()
	_, err := w.out.Write(w.piece.Bytes())
	w.piece.Reset()
	return err
}

func (w *turnWriter) enter() error {
	err := w.readers.Enter(w.ctx, w.user, 1)
	w.held = err == nil
	return err
}

func (w *turnWriter) leave() {
	if w.held {
		w.readers.Leave(w.user, 1)
		w.held = false
	}
}

// close gives back what the writer has.
func (w *turnWriter) close() {
	w.leave()
	if w.piece.Cap() <= 4*pieceBytes { // a single large entry is not kept for all that follow
		w.piece.Reset()
		pieces.Put(w.piece)
	}
}
