package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"posthaste/internal/api/wire"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// The media types by which a request asks for a stream of the log.
const (
	mediaLines  = "application/x-ndjson" // all that match, one a line
	mediaEvents = "text/event-stream"    // those that match, as they are written
)

// heartbeatTime is the longest silence of a stream of events.
const heartbeatTime = 15 * time.Second

// exportLog answers with every entry that matches. The first ones are read here,
// so that what fails early is answered with an error as usual.
func (a *api) exportLog(r *request, params url.Values, form entryForm) (answer, error) {
	query, err := wire.Events(params, wire.Count{Default: eventlog.Unbounded})
	if err != nil {
		return answer{}, err
	}
	export, err := a.options.Log.Export(r.Context(), r.user, query)
	if err != nil {
		return answer{}, err
	}
	reserved := r.newReservation()
	lines, err := nextLines(r.Context(), export, reserved, form)
	if err != nil && !errors.Is(err, io.EOF) {
		reserved.release()
		return answer{}, err
	}
	return a.newStream(r, mediaLines, reserved, func(ctx context.Context, out *outlet) error {
		for err == nil {
			if err = out.write(lines...); err == nil {
				lines, err = nextLines(ctx, export, reserved, form)
			}
		}
		return unlessEnd(err)
	})
}

// nextLines returns the next entries of an export, one a line, when there is memory for them.
func nextLines(ctx context.Context, export *eventlog.Export, reserved *reservation, form entryForm) ([][]byte, error) {
	if err := reserved.reserve(ctx); err != nil {
		return nil, err
	}
	encoder := newEntryEncoder(form)
	err := export.Next(ctx, func(entry *store.Entry) error {
		encoder.add(entry)
		return nil
	})
	reserved.shrink(encoder.size)
	return encoder.list, err
}

// followLog answers with the entries that match, as they are written, in the form
// of server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html.
func (a *api) followLog(r *request, params url.Values, form entryForm) (answer, error) {
	query, fromNow, err := wire.Follow(params, r.Header.Get("Last-Event-ID"))
	if err != nil {
		return answer{}, err
	}
	follower, err := a.options.Log.Follow(r.Context(), r.user, query, fromNow)
	if err != nil {
		return answer{}, err
	}
	if follower.Ended() {
		return answer{status: http.StatusNoContent}, nil // by which clients know not to ask again
	}
	reserved := r.newReservation()
	follower.Reserve, follower.Release = reserved.reserve, reserved.release
	return a.newStream(r, mediaEvents, reserved, func(ctx context.Context, out *outlet) error {
		return a.writeEvents(ctx, out, follower, reserved, form)
	})
}

// writeEvents writes what a follower reads until there are no more, the
// client goes away or the server stops.
func (a *api) writeEvents(ctx context.Context, out *outlet, follower *eventlog.Follower, reserved *reservation, form entryForm) error {
	defer follower.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.options.Serving, cancel)()
	err := writeMark(out, follower)
	for err == nil {
		encoder := newEntryEncoder(form)
		err = follower.Next(ctx, heartbeatTime, encoder.addEvent)
		reserved.shrink(encoder.size)
		switch {
		case err != nil:
		case encoder.size == 0:
			err = writeMark(out, follower)
		default:
			err = out.write(encoder.list...)
			reserved.release()
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return writeMark(out, follower) // a client that asks again from there gets a 204
	case ctx.Err() != nil && !out.gone:
		return nil
	default:
		return err
	}
}

// writeMark sends the client the cursor to continue from if it loses the connection now. It has
// no data, so it is no event; to those who do not know marks it is a comment, a sign
// of life.
func writeMark(out *outlet, follower *eventlog.Follower) error {
	return out.write([]byte(": following\nid: " + wire.Mark(follower.Mark()) + "\n\n"))
}

// addEvent appends an entry as an event, with the id after which the stream can continue.
func (e *entryEncoder) addEvent(mark eventlog.Mark, entry *store.Entry) error {
	e.writeString("id: " + wire.Mark(mark) + "\ndata: ")
	e.add(entry)
	e.writeString("\n")
	return nil
}

// unlessEnd returns an error unless it says that a stream has come to its end.
func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
