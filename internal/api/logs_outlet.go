package api

import (
	"context"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// How long a client may take nothing of a stream before it is given up.
const (
	stallTime    = 10 * time.Minute
	farewellTime = 5 * time.Second // when the server stops, which waits for it
)

// stream is an answer that goes on for any time.
type stream struct {
	api   *api
	media string
	// write writes it until ctx ends. After an error the connection is cut, by which
	// the client knows that what it has is not all.
	write func(ctx context.Context, out *outlet) error
	leave func() // gives back its place among the streams, and what it holds
}

// newStream returns a stream as the answer to a request, if one more is allowed:
// it holds a connection for as long as the client likes.
func (a *api) newStream(r *request, media string, reserved *reservation, write func(ctx context.Context, out *outlet) error) (answer, error) {
	if err := a.options.Streams.Enter(r.Context(), r.user, 1); err != nil {
		reserved.release()
		return answer{}, err
	}
	return ok(stream{a, media, write, func() {
		reserved.release()
		a.options.Streams.Leave(r.user, 1)
	}}), nil
}

// ServeHTTP writes the answer.
func (s stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.leave()
	header := w.Header()
	header.Set("Content-Type", s.media)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // asks a proxy to pass on what it has
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	out := newOutlet(w)
	defer context.AfterFunc(s.api.options.Serving, out.hurry)()
	err := s.write(r.Context(), out)
	if err == nil {
		return
	}
	if !out.gone {
		s.api.logFailure(r, err)
	}
	panic(http.ErrAbortHandler)
}

// pieceBytes is how much of a stream is sent at once.
const pieceBytes = 64 << 10

// outlet writes to a client that may be slow, but must not stand still: the
// deadlines of the connection, which are those of ordinary answers, give way to one
// for each piece.
type outlet struct {
	writer  http.ResponseWriter
	control *http.ResponseController
	gone    bool // nothing can be written any more
	hurried atomic.Bool
}

func newOutlet(w http.ResponseWriter) *outlet {
	o := &outlet{writer: w, control: http.NewResponseController(w)}
	_ = o.control.SetReadDeadline(time.Time{}) // it would end the request in the middle of the answer
	return o
}

// write sends texts, piece by piece.
func (o *outlet) write(texts ...[]byte) error {
	for _, text := range texts {
		for piece := range slices.Chunk(text, pieceBytes) {
			if err := o.send(piece); err != nil {
				return err
			}
		}
	}
	err := o.control.Flush()
	o.gone = o.gone || err != nil
	return err
}

func (o *outlet) send(piece []byte) error {
	o.wait(stallTime)
	if o.hurried.Load() { // looked at last: hurry may come in between
		o.wait(farewellTime)
	}
	_, err := o.writer.Write(piece)
	o.gone = o.gone || err != nil
	return err
}

// hurry makes the outlet wait for its client less long, from now on and for what is
// being written. It may be called at any time, by anybody.
func (o *outlet) hurry() {
	o.hurried.Store(true)
	o.wait(farewellTime)
}

func (o *outlet) wait(d time.Duration) { _ = o.control.SetWriteDeadline(time.Now().Add(d)) }

// preferredMedia returns the media type that Accept headers give the most weight,
// the first of several, and "" if there is none.
func preferredMedia(accept []string) (preferred string) {
	most := 0.0
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, params, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		weight := 1.0
		if q, given := params["q"]; given {
			weight, _ = strconv.ParseFloat(q, 64)
		}
		if weight > most {
			preferred, most = media, weight
		}
	}
	return preferred
}
