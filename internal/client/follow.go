package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"time"

	"github.com/tmaxmax/go-sse"
)

// Times of a stream.
const (
	silence   = time.Minute // without a byte, after which the connection counts as lost: servers send heartbeats
	firstWait = time.Second // before the first attempt to reconnect; each further one waits twice as long
	mostWait  = 30 * time.Second
)

// maxEvent is the maximum number of bytes of an event: far more than the largest log entry.
const maxEvent = 512 << 20

// Follow sends a request for a stream of events and yields their data. When the stream ends
// or the connection is lost it reconnects and continues after the last event, so that each
// comes once, until ctx ends or the server says that there are no more. An error is the last
// thing it yields: the first attempt failed, or a later one in a way that a retry does not
// change.
func (c *Client) Follow(ctx context.Context, request Request) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		f := follower{client: c, request: request, yield: yield}
		if err := f.run(ctx); err != nil && ctx.Err() == nil {
			yield(nil, err)
		}
	}
}

// follower is a Follow in progress.
type follower struct {
	client  *Client
	request Request
	yield   func(json.RawMessage, error) bool
	last    string // the id to continue after
}

var (
	errDone     = errors.New("no more events are wanted, or the server has no more")
	errSilent   = errors.New("the server sent nothing, not even a heartbeat")
	errTooLarge = errors.New("an event is larger than any that a server sends")
)

// run reads the stream, over and over. It returns nil when that has come to an end.
func (f *follower) run(ctx context.Context) error {
	everConnected, wait := false, firstWait
	for {
		connected, err := f.read(ctx)
		if connected {
			everConnected, wait = true, firstWait
		}
		switch {
		case errors.Is(err, errDone) || ctx.Err() != nil:
			return nil
		case !everConnected || isFinal(err):
			return err
		}
		f.client.options.Lost(err, wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, mostWait)
	}
}

// read reads the stream until it ends, which it always does with an error, and
// reports whether it connected.
func (f *follower) read(ctx context.Context) (connected bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	response, err := f.open(ctx)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNoContent {
		return true, errDone
	}
	timer := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer timer.Stop()
	for event, err := range sse.Read(watched{response.Body, timer}, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		if err != nil {
			return true, lost(ctx, err)
		}
		f.last = cmp.Or(event.LastEventID, f.last)
		if event.Data != "" && !f.yield(json.RawMessage(event.Data), nil) { // one without data only moves the id
			return true, errDone
		}
	}
	return true, errors.New("the server ended the stream")
}

// lost says why there is no more of a stream.
func lost(ctx context.Context, err error) error {
	switch {
	case context.Cause(ctx) == errSilent:
		return errSilent
	case errors.Is(err, bufio.ErrTooLong):
		return errTooLarge
	default:
		return fmt.Errorf("the connection is lost: %w", err)
	}
}

func (f *follower) open(ctx context.Context) (*http.Response, error) {
	request := f.request
	if f.last != "" {
		request.Header = http.Header{}
		maps.Copy(request.Header, f.request.Header)
		request.Header.Set("Last-Event-ID", f.last)
	}
	return f.client.open(ctx, request, "text/event-stream")
}

// isFinal reports whether trying again would end the same way.
func isFinal(err error) bool {
	refused, ok := errors.AsType[*StatusError](err)
	if !ok {
		return errors.Is(err, errTooLarge)
	}
	switch refused.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return refused.Status < http.StatusInternalServerError
}

// watched is a reader beside which a timer runs while it is waited for.
type watched struct {
	io.Reader
	timer *time.Timer
}

func (w watched) Read(p []byte) (int, error) {
	w.timer.Reset(silence)
	defer w.timer.Stop()
	return w.Reader.Read(p)
}
