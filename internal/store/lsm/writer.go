package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/disk"
)

// writer is the one goroutine that changes the store. It collects the waiting operations into one
// commit, and goes on to the next commit while a second goroutine, the finisher, waits for the
// disk. So the busier the store, the more operations share a sync, and an idle store syncs at
// once.
//
// An operation reads what it needs, checks, and only then writes: one that fails leaves nothing
// behind in the commit.
type writer struct {
	db       *pebble.DB
	fs       *disk.FS
	observer Observer
	fatal    func(error)
	stall    *disk.StallWatch
	ops      chan *op
	commits  chan *commit
	stop     chan struct{}
	stopped  chan struct{} // closed when no operation will be answered any more

	last     posthaste.Position    // of the last event; writer goroutine only
	number   uint64                // of the last commit; writer goroutine only
	overlay  *overlay              // of the commit that is built; writer goroutine only
	dayIndex *dayIndexWriter       // writer goroutine only
	hours    *hoursWriter          // writer goroutine only
	tail     *tail                 // the end of the log, as far as it is durable
	visible  atomic.Uint64         // the last position that is durable
	grown    broadcast             // signalled when visible has moved, and at the end
	failed   atomic.Pointer[error] // why nothing can be written any more

	begun  atomic.Uint64 // commits that readers may have seen
	ended  atomic.Uint64 // those of them that are durable, or never will be
	synced broadcast     // signalled when ended has grown
}

// op is one operation on its way to disk.
type op struct {
	apply  func(*commit) error
	result chan error // nil when nobody waits

	mu        sync.Mutex // held while apply is called
	abandoned bool       // apply is not called any more
}

// abandon returns when apply is not being called and will not be. What it did before may be on its
// way to disk.
func (o *op) abandon() {
	o.mu.Lock()
	o.abandoned = true
	o.mu.Unlock()
}

// Bounds of one commit.
const (
	maxOpsPerCommit  = 512
	maxBytesInCommit = 4 << 20
)

func newWriter(db *pebble.DB, fs *disk.FS, last posthaste.Position, commits uint64, options Options) *writer {
	w := &writer{
		db:       db,
		fs:       fs,
		observer: options.Observer,
		fatal:    options.fail,
		stall:    disk.NewStallWatch(options.Logger),
		ops:      make(chan *op, maxOpsPerCommit),
		commits:  make(chan *commit), // one waits for the disk, one to be waited for: more would only be smaller
		stop:     make(chan struct{}),
		stopped:  make(chan struct{}),
		last:     last,
		number:   commits,
		overlay:  newOverlay(),
		dayIndex: newDayIndexWriter(),
		hours:    newHoursWriter(),
		tail:     &tail{floor: last},
	}
	w.visible.Store(uint64(last))
	go w.write()
	go w.finish()
	return w
}

// do runs an operation and returns when it is durable. If ctx ends first, or the disk
// is found not to answer, the caller does not know whether it took place.
func (w *writer) do(ctx context.Context, apply func(*commit) error) error {
	if err := w.stall.Err(); err != nil {
		return err
	}
	o := &op{apply: apply, result: make(chan error, 1)}
	err := w.await(ctx, o, w.stall.Noticed())
	if err != nil { // the caller may have given up, and looks at what apply has found out
		o.abandon()
	}
	return err
}

// await runs an operation and returns when it is durable, or stalled is closed.
func (w *writer) await(ctx context.Context, o *op, stalled <-chan struct{}) error {
	if err := w.submit(ctx, o, stalled); err != nil {
		return err
	}
	select {
	case err := <-o.result:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-stalled:
		return disk.ErrStalledMeanwhile
	case <-w.stopped:
	}
	select {
	case err := <-o.result:
		return err
	default:
		return store.ErrClosed
	}
}

// post runs an operation some time soon, in order, without waiting for it. It is not
// given up when the disk does not answer.
func (w *writer) post(ctx context.Context, apply func(*commit) error) error {
	return w.submit(ctx, &op{apply: apply}, nil)
}

// submit hands an operation to the writer as soon as there is room for it, unless ctx
// ends or stalled is closed first.
func (w *writer) submit(ctx context.Context, o *op, stalled <-chan struct{}) error {
	if err := w.failure(); err != nil {
		return err
	}
	select {
	case <-w.stop:
		return store.ErrClosed
	default:
	}
	select {
	case w.ops <- o:
		return nil
	case <-w.stop:
		return store.ErrClosed
	case <-stalled:
		return disk.ErrStalled
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close stops the writer. Operations that were not begun fail with ErrClosed.
func (w *writer) close() {
	close(w.stop)
	<-w.stopped
}

func (w *writer) write() {
	defer close(w.commits)
	for {
		select {
		case <-w.stop:
			w.refuse(store.ErrClosed)
			return
		case first := <-w.ops:
			w.commits <- w.build(first)
		}
	}
}

// refuse answers the operations that will not be begun.
func (w *writer) refuse(err error) {
	for {
		select {
		case o := <-w.ops:
			o.answer(err)
		default:
			return
		}
	}
}

// build collects operations into one commit and hands it to the storage engine,
// which queues its sync.
func (w *writer) build(first *op) *commit {
	w.overlay = w.overlay.emptied()
	c := newCommit(w.db, w.last, w.overlay)
	c.followed = w.tail.begin()
	c.run(first)
	for len(c.ops) < maxOpsPerCommit && c.size() < maxBytesInCommit {
		select {
		case o := <-w.ops:
			c.run(o)
			continue
		default:
		}
		break
	}
	c.started = time.Now()
	if err := w.failure(); err != nil {
		c.err = err
		return c
	}
	c.writeLog(w.dayIndex)
	w.last = c.last
	if c.err = errors.Join(w.hours.write(c), c.writeCounts(), c.joinRecords()); c.err != nil {
		w.dayIndex.forget()
		w.hours.forget()
		return c
	}
	if c.batch.Empty() {
		return c
	}
	w.number++
	c.number = w.number
	end := binary.BigEndian.AppendUint64(c.key(), c.number)
	c.set(keyEnd, binary.BigEndian.AppendUint64(end, uint64(w.last)))
	c.begun = true
	w.begun.Add(1)
	w.stall.Begin()
	c.err = w.db.ApplyNoSyncWait(c.batch, pebble.Sync)
	return c
}

// finish waits for commits to be durable, in order, and lets the world know.
func (w *writer) finish() {
	defer close(w.stopped)
	for c := range w.commits {
		applied := time.Now()
		if c.begun && c.err == nil {
			if c.err = c.batch.SyncWait(); c.err == nil {
				w.fs.Synced(c.number)
			}
		}
		if c.err != nil {
			w.fail(c.err)
		} else {
			w.published(c)
		}
		if c.begun {
			w.stall.End()
			w.ended.Add(1)
			w.synced.send()
		}
		w.observer.Committed(len(c.ops), applied.Sub(c.started), time.Since(applied))
		for _, o := range c.ops {
			o.answer(c.err)
		}
		_ = c.batch.Close()
	}
}

// settled returns when what a reader may have seen until now is durable, or the store
// has failed or been closed, or with disk.ErrStalled if the disk does not answer.
func (w *writer) settled() error {
	begun := w.begun.Load()
	for w.ended.Load() < begun {
		synced := w.synced.next() // taken first: what ends in between closes it
		if w.ended.Load() >= begun {
			return nil
		}
		select {
		case <-synced:
		case <-w.stall.Noticed():
			return disk.ErrStalled
		case <-w.stopped:
			return nil
		}
	}
	return nil
}

func (w *writer) published(c *commit) {
	for _, effect := range c.effects {
		effect()
	}
	w.tail.add(c.latest, c.followed, c.last)
	if last := uint64(c.last); w.visible.Swap(last) != last {
		w.grown.send()
	}
}

// fail stops the process, and until it is gone makes every later operation fail: after
// a write whose fate is unknown, nothing that follows may be promised.
func (w *writer) fail(err error) {
	failure := fmt.Errorf("store: writing has failed for good: %w", err)
	if w.failed.CompareAndSwap(nil, &failure) {
		w.fatal(err)
	}
}

func (w *writer) failure() error {
	if err := w.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (o *op) answer(err error) {
	if o.result != nil {
		o.result <- err
	}
}

// broadcast is something that happens again and again, and wakes all who wait for it. The
// zero value is ready.
type broadcast struct {
	mu      sync.Mutex
	waiting chan struct{} // closed by the next send; nil while nobody waits
}

// next returns a channel that is closed by the next send.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = make(chan struct{})
	}
	return b.waiting
}

// send wakes those who wait. Without any it costs a lock.
func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting != nil {
		close(b.waiting)
		b.waiting = nil
	}
}
