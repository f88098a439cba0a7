package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

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
	export, err := a.options.Log.Export(r.Context(), r.user, params)
	if err != nil {
		return answer{}, err
	}
	room := r.newPageBudget()
	entries, err := nextPiece(r.Context(), export, room)
	if err != nil && !errors.Is(err, io.EOF) {
		return answer{}, err
	}
	return a.newStream(r, mediaLines, room, func(ctx context.Context, out *outlet) error {
		for err == nil {
			if err = writeLines(out, r.turn(), entries, form); err == nil {
				entries, err = nextPiece(ctx, export, room)
			}
		}
		return unlessEnd(err)
	})
}

// nextPiece reads the next entries of an export when there is room for them.
func nextPiece(ctx context.Context, export *eventlog.Export, room *pageRoom) ([]store.Entry, error) {
	if err := room.reserve(ctx); err != nil {
		return nil, err
	}
	entries, err := export.Next(ctx)
	room.keep(entriesSize(entries))
	return entries, err
}

// writeLines writes entries, one a line.
func writeLines(out *outlet, turn turn, entries []store.Entry, form entryForm) error {
	encoder := newEntryEncoder(form)
	defer encoder.release()
	lines := list{length: len(entries), item: func(i int) []byte { return encoder.encode(entries[i]) }}
	if err := turn.write(out, lines); err != nil {
		return err
	}
	return out.flush()
}

// followLog answers with the entries that match, as they are written, in the form
// of server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html.
func (a *api) followLog(r *request, params url.Values, form entryForm) (answer, error) {
	follower, err := a.options.Log.Follow(r.Context(), r.user, params, r.Header.Get("Last-Event-ID"))
	if err != nil {
		return answer{}, err
	}
	if follower.Ended() {
		return answer{status: http.StatusNoContent}, nil // by which clients know not to ask again
	}
	room := r.newPageBudget()
	follower.Reserve, follower.Release = room.reserve, room.give
	return a.newStream(r, mediaEvents, room, func(ctx context.Context, out *outlet) error {
		return a.writeEvents(ctx, out, follower, room, form)
	})
}

// writeEvents writes what a follower reads until there is no more to come, the
// client goes away or the server stops.
func (a *api) writeEvents(ctx context.Context, out *outlet, follower *eventlog.Follower, room *pageRoom, form entryForm) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.options.Serving, cancel)()
	err := writeMark(out, follower)
	for err == nil {
		var entries []store.Entry
		entries, err = follower.Next(ctx, heartbeatTime)
		room.keep(entriesSize(entries))
		switch {
		case err != nil:
		case len(entries) == 0:
			err = writeMark(out, follower)
		default:
			err = a.writeEntries(out, follower, entries, form)
			room.give()
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return writeMark(out, follower) // a client that asks again from there is told to stop
	case ctx.Err() != nil && !out.gone:
		return nil
	default:
		return err
	}
}

// writeMark tells the client where to go on if it loses the connection now. It has
// no data, so it is no event; to those who do not know marks it is a comment, a sign
// of life.
func writeMark(out *outlet, follower *eventlog.Follower) error {
	if _, err := fmt.Fprintf(out, ": following\nid: %s\n\n", follower.Mark()); err != nil {
		return err
	}
	return out.flush()
}

// writeEntries writes entries as events, each with the mark to go on behind it.
func (a *api) writeEntries(out *outlet, follower *eventlog.Follower, entries []store.Entry, form entryForm) error {
	encoder := newEntryEncoder(form)
	defer encoder.release()
	if time.Since(entries[0].Position.Time()) < sharedAge {
		encoder.shared = &a.followed
	}
	for i, entry := range entries {
		if out.gone {
			break
		}
		out.writeString("id: ")
		out.writeString(follower.MarkBehind(entries, i))
		out.writeString("\ndata: ")
		_, _ = out.Write(encoder.encode(entry))
		out.writeString("\n")
	}
	return out.flush()
}

// unlessEnd returns an error unless it says that a stream has come to its end.
func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
