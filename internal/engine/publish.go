package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Publish accepts a publication and returns a receipt per endpoint once the messages are durable.
// It returns a posthaste.Error: NotFound for an unknown URL group, Limit for a setting above its
// limit.
func (e *Engine) Publish(ctx context.Context, user string, p Publication) ([]Receipt, error) {
	results, err := e.PublishBatch(ctx, user, []Publication{p})
	if err != nil {
		return nil, err
	}
	return results[0].Receipts, results[0].Err
}

// Result is the receipts of a publication, or why it was rejected.
type Result struct {
	Receipts []Receipt
	Err      error
}

// PublishBatch accepts publications independently, in commits of about maxCommit bytes, and returns
// results in order. err is an internal error, after which the caller does not know which were
// accepted.
func (e *Engine) PublishBatch(ctx context.Context, user string, publications []Publication) ([]Result, error) {
	results := make([]Result, len(publications))
	if err := e.publish(ctx, user, publications, results); err != nil {
		return nil, err
	}
	return results, nil
}

func (e *Engine) publish(ctx context.Context, user string, publications []Publication, results []Result) error {
	stored := false // part of them is stored: report errors one by one
	fail := func(err error) error {
		if !stored {
			return err
		}
		for i := range results {
			if results[i].Receipts == nil && results[i].Err == nil {
				results[i].Err = err
			}
		}
		return nil
	}
	now, size := e.now(), 0
	var submissions []store.Submission
	var indexes []int // of publications and results
	for i, p := range publications {
		if size >= maxCommit {
			if err := e.accept(ctx, user, now, publications, submissions, indexes, results); err != nil {
				return fail(err)
			}
			submissions, indexes, size, stored = nil, nil, 0, true
		}
		submission, err := e.submission(ctx, user, p, now)
		if err != nil && posthaste.ErrorCode(err) == posthaste.CodeInternal {
			return fail(err)
		}
		if err != nil {
			results[i].Err = err
			continue
		}
		submissions, indexes = append(submissions, submission), append(indexes, i)
		for _, m := range submission.Messages {
			size += store.MessageSize(m)
		}
	}
	if err := e.accept(ctx, user, now, publications, submissions, indexes, results); err != nil {
		return fail(err)
	}
	return nil
}

// accept accepts submissions in one commit; indexes are those of their publications and results.
func (e *Engine) accept(ctx context.Context, user string, now time.Time, publications []Publication,
	submissions []store.Submission, indexes []int, results []Result,
) error {
	if len(submissions) == 0 {
		return nil
	}
	accepted, err := e.options.Store.Accept(ctx, now, submissions)
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	messages := 0
	for i, submission := range submissions {
		if results[indexes[i]].Receipts, err = e.receipts(ctx, user, submission, accepted[i]); err != nil {
			return err
		}
		if !accepted[i].Deduplicated {
			messages += len(submission.Messages)
			e.tracePublished(submission.Messages, publications[indexes[i]].Trace)
		}
	}
	e.options.Observer.Accepted(messages)
	return nil
}

// receipts returns the receipts of a submission. A deduplicated one has the URLs of the earlier
// messages.
func (e *Engine) receipts(ctx context.Context, user string, submission store.Submission, accepted store.Accepted) ([]Receipt, error) {
	all := make([]Receipt, len(accepted.IDs))
	for i, id := range accepted.IDs {
		all[i] = Receipt{MessageID: id, Deduplicated: accepted.Deduplicated}
		if !accepted.Deduplicated {
			all[i].URL = submission.Messages[i].URL
			continue
		}
		switch earlier, err := e.options.Store.Message(ctx, user, id); {
		case err == nil:
			all[i].URL = earlier.Message.URL
		case !errors.Is(err, store.ErrNotFound):
			return nil, fmt.Errorf("read repeated message: %w", err)
		}
	}
	return all, nil
}

// maxFanOut limits the total bytes of a publication to a URL group, because its messages share a
// commit.
const maxFanOut = 64 << 20

// maxCommit is the size in bytes after which a batch starts another commit.
const maxCommit = 16 << 20

// submission makes the messages of a publication, one per endpoint.
func (e *Engine) submission(ctx context.Context, user string, p Publication, now time.Time) (store.Submission, error) {
	endpoints, group, err := e.endpoints(ctx, user, p.Destination)
	if err != nil {
		return store.Submission{}, err
	}
	if p.Queue != "" {
		if err := e.checkQueueCount(ctx, user, p.Queue); err != nil {
			return store.Submission{}, err
		}
	}
	submission := store.Submission{DedupKey: p.dedupKey()}
	for _, endpoint := range endpoints {
		m, err := e.newMessage(user, p, endpoint, group, now)
		if err != nil {
			return store.Submission{}, err
		}
		if size := store.MessageSize(m) * len(endpoints); group != "" && len(endpoints) > 1 && size > maxFanOut {
			return store.Submission{}, posthaste.Errorf(posthaste.CodeTooLarge,
				"%d bytes for each of the %d endpoints of URL group %s exceed the limit of %d for one publication",
				store.MessageSize(m), len(endpoints), group, maxFanOut)
		}
		submission.Messages = append(submission.Messages, m)
	}
	return submission, nil
}

// endpoints resolves a destination. group is "" for a URL.
func (e *Engine) endpoints(ctx context.Context, user, destination string) (endpoints []posthaste.Endpoint, group string, err error) {
	if isURL(destination) {
		return []posthaste.Endpoint{{URL: destination}}, "", nil
	}
	found, err := e.options.Store.URLGroup(ctx, user, destination)
	if errors.Is(err, store.ErrNotFound) {
		return nil, "", posthaste.Errorf(posthaste.CodeNotFound, "topic %s not found", destination)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read url group: %w", err)
	}
	return found.Endpoints, found.Name, nil
}

// newMessage makes the message for an endpoint; group is "" unless it is one of a URL group.
func (e *Engine) newMessage(user string, p Publication, to posthaste.Endpoint, group string, now time.Time) (*posthaste.Message, error) {
	start := p.StartAt(now)
	if err := e.options.Limits.Check(p, start.Sub(now)); err != nil {
		return nil, err
	}
	id, err := e.newID(now)
	if err != nil {
		return nil, err
	}
	m := &posthaste.Message{
		ID:         id,
		User:       user,
		URL:        to.URL,
		Endpoint:   to.Name,
		URLGroup:   group,
		Body:       p.Body,
		CreatedAt:  now,
		NotBefore:  start,
		CallerIP:   p.CallerIP,
		Queue:      p.Queue,
		ScheduleID: p.scheduleID,
		Settings:   e.options.Limits.WithDefaults(p.Settings),
	}
	m.SetSlot(e.options.OwnSlot)
	if e.options.Traces != nil {
		m.Trace = e.options.Traces.Publish(m)
	}
	return m, nil
}

// tracePublished reports durable messages.
func (e *Engine) tracePublished(messages []*posthaste.Message, parent posthaste.TraceContext) {
	if e.options.Traces == nil {
		return
	}
	for _, m := range messages {
		e.options.Traces.Published(m, parent)
	}
}

func (e *Engine) newID(now time.Time) (posthaste.MessageID, error) {
	id, err := posthaste.NewMessageID(now, e.options.Entropy)
	if err != nil {
		return id, fmt.Errorf("make message id: %w", err)
	}
	return id, nil
}

// now returns the time in milliseconds, the precision of the store.
func (e *Engine) now() time.Time { return e.options.Now().Truncate(time.Millisecond) }

func isURL(destination string) bool {
	scheme, _, found := strings.Cut(destination, "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}
