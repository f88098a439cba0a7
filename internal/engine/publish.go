package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Publish accepts a publication and returns a receipt for each endpoint it goes
// to, once the messages are durable. Its errors are posthaste.Errors: NotFound
// for a URL group that does not exist, Limit for a setting above its limit.
func (e *Engine) Publish(ctx context.Context, user string, p Publication) ([]Receipt, error) {
	if !isURL(p.Destination) {
		return nil, posthaste.Errorf(posthaste.CodeNotFound, "topic %s not found", p.Destination)
	}
	now := e.now()
	m, err := e.newMessage(user, p, now)
	if err != nil {
		return nil, err
	}
	m.URL = p.Destination
	if err := e.options.Store.Accept(ctx, now, []*posthaste.Message{m}); err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	e.options.Observer.Accepted(1)
	return []Receipt{{MessageID: m.ID, URL: m.URL}}, nil
}

// newMessage turns a publication into a message without a destination.
func (e *Engine) newMessage(user string, p Publication, now time.Time) (*posthaste.Message, error) {
	start := p.startAt(now)
	if err := e.options.Limits.check(p, start.Sub(now)); err != nil {
		return nil, err
	}
	id, err := posthaste.NewMessageID(now, e.options.Entropy)
	if err != nil {
		return nil, fmt.Errorf("make message id: %w", err)
	}
	return &posthaste.Message{
		ID:        id,
		User:      user,
		Body:      p.Body,
		CreatedAt: now,
		NotBefore: start,
		CallerIP:  p.CallerIP,
		Queue:     p.Queue,
		Settings:  p.Settings,
	}, nil
}

// startAt returns when the first attempt is due: NotBefore beats Delay, and
// neither reaches into the past.
func (p Publication) startAt(now time.Time) time.Time {
	start := now.Add(p.Delay)
	if !p.NotBefore.IsZero() {
		start = p.NotBefore
	}
	if start.Before(now) {
		return now
	}
	return start
}

func (l Limits) check(p Publication, delay time.Duration) error {
	if retries := p.MaxRetries(); l.Retries > 0 && retries > l.Retries {
		return posthaste.Errorf(posthaste.CodeLimit, "retries %d is over the limit of %d", retries, l.Retries)
	}
	if l.Delay > 0 && delay > l.Delay {
		return posthaste.Errorf(posthaste.CodeLimit, "delay %s is over the limit of %s", delay, l.Delay)
	}
	return nil
}

// now returns the present time to the millisecond, the precision of everything
// that is stored.
func (e *Engine) now() time.Time { return e.options.Now().Truncate(time.Millisecond) }

func isURL(destination string) bool {
	scheme, _, found := strings.Cut(destination, "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// Cancel asks for messages to be cancelled and returns how many it changed:
// unknown ids and messages that ended, or were cancelled before, do not count.
func (e *Engine) Cancel(ctx context.Context, user string, ids []posthaste.MessageID) (int, error) {
	cancelled, err := e.options.Store.Cancel(ctx, e.now(), user, ids)
	if err != nil {
		return 0, fmt.Errorf("cancel: %w", err)
	}
	return len(cancelled), nil
}

// Message returns a message and where it stands, or store.ErrNotFound.
func (e *Engine) Message(ctx context.Context, user string, id posthaste.MessageID) (store.Status, error) {
	return e.options.Store.Message(ctx, user, id)
}
