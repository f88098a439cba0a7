// Package model is a store.Store in memory that is obviously right: one lock,
// and every question is answered by looking at everything. Other backends are
// compared with it. It is slow, forgets nothing while it runs and everything
// when it ends.
//
// It sets a lane no bounds but those of queues and flow-control keys.
package model

import (
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Model implements store.Store. Make one with New.
type Model struct {
	wake chan struct{}

	mu     sync.Mutex // guards all that follows
	closed bool
	grown  chan struct{} // closed and replaced when the log grows
	kept

	served map[laneOf]int // when each lane was served last; 0: never
	turn   int            // how often a lane was served
}

// kept is what a crash leaves.
type kept struct {
	lives       []*life // in the order they were accepted
	log         []entry
	position    posthaste.Position      // the last one given
	shown       posthaste.Position      // the highest that was read
	lease       uint64                  // the last one given
	deadLetters []*posthaste.DeadLetter // by id
	submissions map[name]submission     // by deduplication key
	queues      kind[posthaste.Queue]
	groups      kind[posthaste.URLGroup]
	schedules   kind[posthaste.Schedule]
	flowKeys    kind[posthaste.FlowKey]
	actions     kind[posthaste.BulkAction]
	secrets     map[string]string
	workflows
}

// name is a name of something that belongs to a user.
type name struct{ user, name string }

// laneOf is a lane of a user.
type laneOf struct {
	user string
	lane posthaste.Lane
}

// life is a message and where it stands.
type life struct {
	message         *posthaste.Message
	createdAt       posthaste.Position
	state           posthaste.State // CREATED or RETRY until it ends
	dueAt           time.Time
	retried         int
	lease           uint64 // 0: not claimed
	cancelRequested bool
}

// entry is an event of a message.
type entry struct {
	event posthaste.Event
	life  *life
}

// submission is what is remembered of one.
type submission struct {
	at  time.Time
	ids []posthaste.MessageID
}

var _ store.Store = (*Model)(nil)

// New returns an empty Model.
func New() *Model {
	return open(kept{
		submissions: map[name]submission{},
		queues:      kindOf(copyOf[posthaste.Queue]),
		groups:      kindOf(copyGroup),
		schedules:   kindOf(copySchedule),
		flowKeys:    kindOf(copyOf[posthaste.FlowKey]),
		actions:     kindOf(copyAction),
		secrets:     map[string]string{},
		workflows:   workflows{executions: map[runID]*execution{}, answers: map[name]answer{}},
	})
}

func open(has kept) *Model {
	return &Model{wake: make(chan struct{}, 1), grown: make(chan struct{}), kept: has, served: map[laneOf]int{}}
}

// Close implements store.Store.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.close()
	return nil
}

// close must be called under the lock.
func (m *Model) close() {
	m.closed = true
	m.tellWatchers()
}

// Crash closes the model and returns what a crash may leave of it, at worst: the
// leases are gone, and so are the ACTIVE events at the end of the log that
// nobody has read.
func (m *Model) Crash() *Model {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.close()
	for last := len(m.log) - 1; last >= 0; last-- {
		if e := m.log[last].event; e.State != posthaste.StateActive || e.Position <= m.shown {
			break
		}
		m.log = m.log[:last]
	}
	for _, l := range m.lives {
		l.lease = 0
	}
	return open(m.kept)
}

// do runs one operation, alone.
func (m *Model) do(operation func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
	}
	return operation()
}

// ask is do for an operation that answers something.
func ask[T any](m *Model, operation func() (T, error)) (answer T, err error) {
	err = m.do(func() (err error) {
		answer, err = operation()
		return err
	})
	return answer, err
}

// change runs one operation after which Claim may find more.
func (m *Model) change(operation func() error) error {
	defer m.signal()
	return m.do(operation)
}

func (m *Model) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// append adds an event to the log and returns its position.
func (m *Model) append(now time.Time, l *life, event posthaste.Event) posthaste.Position {
	event.Position = m.nextPosition(now, l.message.ID.Slot())
	m.log = append(m.log, entry{event, l})
	m.tellWatchers()
	return event.Position
}

// tellWatchers wakes those who wait for the log to grow.
func (m *Model) tellWatchers() {
	close(m.grown)
	m.grown = make(chan struct{})
}

func (m *Model) nextPosition(now time.Time, slot posthaste.Slot) posthaste.Position {
	m.position = m.position.Next(now, slot)
	return m.position
}

// find returns the life of a user's message, or nil.
func (m *Model) find(user string, id posthaste.MessageID) *life {
	for _, l := range m.lives {
		if l.message.User == user && l.message.ID == id {
			return l
		}
	}
	return nil
}

// claimed returns the life of a current claim, or nil.
func (m *Model) claimed(claim store.Claim) *life {
	l := m.find(claim.Message.User, claim.Message.ID)
	if l == nil || l.lease == 0 || l.lease != claim.Lease {
		return nil
	}
	return l
}

// waits reports whether the message waits for an attempt.
func (l *life) waits() bool { return l.lease == 0 && !l.state.Terminal() }

func (l *life) lane() laneOf { return laneOf{l.message.User, l.message.Lane()} }

func (l *life) flowKey() name { return name{l.message.User, l.message.FlowControl.Key} }
