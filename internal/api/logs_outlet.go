package api

import (
	"context"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// stallTime is how long a client may take nothing of a stream before it is given
// up.
const stallTime = 10 * time.Minute

// stream is an answer that goes on for any time.
type stream struct {
	api   *api
	media string
	// write writes it until ctx ends. After an error the connection is cut, by which
	// the client knows that what it has is not all.
	write func(ctx context.Context, out *outlet) error
}

// ServeHTTP writes the answer.
func (s stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", s.media)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // asks a proxy to pass on what it has
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	out := newOutlet(w)
	err := s.write(r.Context(), out)
	if err == nil {
		return
	}
	if !out.gone {
		s.api.logFailure(r, err)
	}
	panic(http.ErrAbortHandler)
}

// outlet writes to a client that may be slow, but must not stand still: the
// deadlines of the connection, which are those of ordinary answers, give way to one
// for each piece.
type outlet struct {
	writer  http.ResponseWriter
	control *http.ResponseController
	gone    bool // nothing can be written any more
}

func newOutlet(w http.ResponseWriter) *outlet {
	o := &outlet{writer: w, control: http.NewResponseController(w)}
	_ = o.control.SetReadDeadline(time.Time{}) // it would end the request in the middle of the answer
	return o
}

// Write writes a piece.
func (o *outlet) Write(p []byte) (int, error) {
	_ = o.control.SetWriteDeadline(time.Now().Add(stallTime))
	n, err := o.writer.Write(p)
	o.gone = o.gone || err != nil
	return n, err
}

// flush sends what was written.
func (o *outlet) flush() error {
	err := o.control.Flush()
	o.gone = o.gone || err != nil
	return err
}

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
