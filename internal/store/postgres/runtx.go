package postgres

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// runTx implements store.RunTx, where its methods are described. It reads the state before the
// transaction, collects the writes, and makes them after the rules have decided.
type runTx struct {
	*tx
	user     string
	settling posthaste.MessageID // the message being settled, if any

	runs    map[posthaste.Position]*posthaste.Run // that were read or started
	latest  map[string]posthaste.Position         // started with an id
	memory  map[memoryKey]posthaste.MessageID
	removed map[posthaste.Position]bool // waiters, dead letters and events
	dirty   map[posthaste.Position]bool // runs to be saved
	before  map[posthaste.Position]*termsBefore
	writes  []func() error
}

type memoryKey struct {
	run posthaste.Position
	key string
}

func (tx *tx) runTx(user string) *runTx {
	return &runTx{
		tx:      tx,
		user:    user,
		runs:    map[posthaste.Position]*posthaste.Run{},
		latest:  map[string]posthaste.Position{},
		memory:  map[memoryKey]posthaste.MessageID{},
		removed: map[posthaste.Position]bool{},
		dirty:   map[posthaste.Position]bool{},
		before:  map[posthaste.Position]*termsBefore{},
	}
}

// stage queues a write, in order.
func (r *runTx) stage(write func() error) { r.writes = append(r.writes, write) }

func (r *runTx) stageExec(sql string, args ...any) {
	r.stage(func() error {
		r.exec(sql, args...)
		return nil
	})
}

func (r *runTx) write() error {
	for _, write := range r.writes {
		if err := write(); err != nil {
			return err
		}
	}
	for at := range r.dirty {
		r.saveRun(r.runs[at])
		r.indexRun(r.runs[at], r.before[at])
	}
	return nil
}

func (r *runTx) saveRun(run *posthaste.Run) {
	r.exec(`
		INSERT INTO posthaste.runs (user_id, position, id, record, progress, completed) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (user_id, position) DO UPDATE
			SET record = excluded.record, progress = excluded.progress, completed = excluded.completed`,
		r.user, int64(run.Position), shortHash(run.ID), record.AppendRun(nil, run),
		record.AppendRunProgress(nil, &run.RunProgress), completedAt(run))
}

// completedAt is when a run ended, nil for an active one.
func completedAt(run *posthaste.Run) *int64 {
	if run.Active() {
		return nil
	}
	return milli(run.CompletedAt)
}

func (r *runTx) Now() time.Time { return r.now }

func (r *runTx) NextPosition() posthaste.Position { return r.nextPosition(r.user) }

func (r *runTx) Run(at posthaste.Position) (*posthaste.Run, error) {
	if run := r.runs[at]; run != nil {
		return run, nil
	}
	run, err := readRun(r.ctx, r, r.user, at)
	if err != nil {
		return nil, err
	}
	return r.firstRead(run), nil
}

// firstRead returns the first copy that was read of a run.
func (r *runTx) firstRead(run *posthaste.Run) *posthaste.Run {
	if held := r.runs[run.Position]; held != nil {
		return held
	}
	r.runs[run.Position] = run
	r.before[run.Position] = newTermsBefore(run)
	return run
}

func (r *runTx) LatestRun(id string) (*posthaste.Run, error) {
	if at, started := r.latest[id]; started {
		return r.runs[at], nil
	}
	run, err := readLatest(r.ctx, r, r.user, id)
	if err != nil {
		return nil, err
	}
	return r.Run(run.Position)
}

func (r *runTx) Start(run *posthaste.Run) {
	r.runs[run.Position] = run
	r.latest[run.ID] = run.Position
	r.Save(run)
	r.stage(func() error {
		r.addUsage(usageKey{user: r.user, kind: usageRuns}, 1, len(record.AppendRun(nil, run)))
		return nil
	})
}

func (r *runTx) Save(run *posthaste.Run) { r.dirty[run.Position] = true }

func (r *runTx) Log(m *posthaste.Message, state posthaste.State, reason string) {
	r.stage(func() error {
		r.event(m, posthaste.Event{MessageID: m.ID, State: state, Error: reason})
		return nil
	})
}

func (r *runTx) Append(run *posthaste.Run, entry posthaste.RunEntry, m *posthaste.Message) error {
	entry.Index = run.Entries
	run.Entries++
	run.ListBytes += len(entry.Body)
	r.Save(run)
	data := record.AppendRunEntry(nil, &entry)
	r.stage(func() error {
		r.exec(`INSERT INTO posthaste.run_entries (user_id, run, entry, record) VALUES ($1, $2, $3, $4)`,
			r.user, int64(run.Position), entry.Index, data)
		r.addUsage(usageKey{user: r.user, kind: usageRuns}, 0, len(data))
		return nil
	})
	if m == nil {
		return nil
	}
	m.Run.Entry, m.Run.ListBytes, m.Body = entry.Index, run.ListBytes, entry.Body
	return r.Accept(m)
}

func (r *runTx) PutIdempotencyRecord(run *posthaste.Run, key string, id posthaste.MessageID) {
	r.memory[memoryKey{run.Position, key}] = id
	r.stageExec(`
		INSERT INTO posthaste.run_memory (user_id, run, key, message_id) VALUES ($1, $2, $3, $4)
		ON CONFLICT (user_id, run, key) DO UPDATE SET message_id = excluded.message_id`,
		r.user, int64(run.Position), shortHash(key), [16]byte(id))
}

func (r *runTx) IdempotencyRecord(run *posthaste.Run, key string) (id posthaste.MessageID, ok bool, err error) {
	if id, ok = r.memory[memoryKey{run.Position, key}]; ok {
		return id, true, nil
	}
	stored, err := row(r.ctx, r, pgx.RowTo[[16]byte], `
		SELECT message_id FROM posthaste.run_memory WHERE user_id = $1 AND run = $2 AND key = $3`,
		r.user, int64(run.Position), shortHash(key))
	if errors.Is(err, store.ErrNotFound) {
		return id, false, nil
	}
	return stored, err == nil, err
}

func (r *runTx) Entries(run posthaste.Position, count int) ([]posthaste.RunEntry, error) {
	return readList(r.ctx, r, r.user, run, count)
}

func (r *runTx) Accept(m *posthaste.Message) error {
	r.stage(func() error { return r.accept([]*posthaste.Message{m}) })
	return nil
}

func (r *runTx) Message(id posthaste.MessageID) (*posthaste.Message, posthaste.State, error) {
	status, err := readStatus(r.ctx, r, r.user, id)
	return status.Message, status.State, err
}

func (r *runTx) CancelDeliveries(run *posthaste.Run, inFlight bool) error {
	entries, err := r.Entries(run.Position, -1)
	if err != nil {
		return err
	}
	ids := []posthaste.MessageID{run.FirstID}
	for _, entry := range entries {
		ids = append(ids, entry.MessageID)
	}
	targets, err := r.findLive(`user_id = $1 AND id = ANY($2) AND NOT ended AND NOT cancel_requested`, r.user, uuids(ids))
	if err != nil {
		return err
	}
	if err := r.loadEnvelopes(targets); err != nil {
		return err
	}
	for _, l := range targets {
		if l.id != r.settling && (inFlight || l.lease == 0) {
			r.stageCancel(l.id)
		}
	}
	return nil
}

func (r *runTx) Cancel(id posthaste.MessageID) (bool, error) {
	l, err := r.live(r.user, id)
	if err != nil {
		return false, ignore(err, store.ErrNotFound)
	}
	if l.ended || l.cancelRequested {
		return false, nil
	}
	r.stageCancel(id)
	return true, nil
}

// stageCancel queues a cancellation, decided by what was written before it.
func (r *runTx) stageCancel(id posthaste.MessageID) {
	r.stage(func() error {
		l, err := r.live(r.user, id)
		if err != nil {
			return ignore(err, store.ErrNotFound)
		}
		_, err = r.cancel(l)
		return err
	})
}

func (r *runTx) CachedResponse(key string) ([]byte, error) {
	answer, err := row(r.ctx, r, pgx.RowTo[[]byte], `
		SELECT answer FROM posthaste.answers WHERE user_id = $1 AND key = $2 AND at > $3`,
		r.user, shortHash(key), r.now.Add(-store.ResponseWindow).UnixMilli())
	return answer, ignore(err, store.ErrNotFound)
}

// CacheResponse deletes up to four expired responses, so that they never pile up.
func (r *runTx) CacheResponse(key string, answer []byte) {
	r.stageExec(`
		DELETE FROM posthaste.answers WHERE (user_id, key) IN (
			SELECT user_id, key FROM posthaste.answers WHERE user_id = $1 AND at <= $2 ORDER BY at LIMIT 4)`,
		r.user, r.now.Add(-store.ResponseWindow).UnixMilli())
	r.stageExec(`
		INSERT INTO posthaste.answers (user_id, key, at, answer) VALUES ($1, $2, $3, $4)
		ON CONFLICT (user_id, key) DO UPDATE SET at = excluded.at, answer = excluded.answer`,
		r.user, shortHash(key), r.now.UnixMilli(), answer)
}

func (r *runTx) Advance(step *store.Step, processed int, failures []posthaste.ActionFailure) error {
	if step == nil {
		return nil
	}
	action, err := actions.getIn(r.tx, r.user, step.ActionID)
	if err != nil {
		return err
	}
	if err := step.Check(action); err != nil {
		return err
	}
	r.stage(func() error { return r.advance(r.user, step, processed, failures) })
	return nil
}

func (r *runTx) AddToDLQ(run *posthaste.Run, d *posthaste.DeadLetter) {
	data := record.AppendDeadLetter(nil, d)
	r.stage(func() error {
		r.exec(`INSERT INTO posthaste.run_dead_letters (user_id, id, run, record) VALUES ($1, $2, $3, $4)`,
			r.user, int64(d.ID), int64(run.Position), data)
		r.index(r.user, usageFailedRuns, int64(d.ID), index.FailedRun(run))
		r.addUsage(usageKey{user: r.user, kind: usageFailedRuns}, 1, len(data))
		return nil
	})
}

func (r *runTx) DLQEntry(id posthaste.DeadLetterID) (*posthaste.DeadLetter, *posthaste.Run, error) {
	if r.removed[posthaste.Position(id)] {
		return nil, nil, store.ErrNotFound
	}
	found, err := row(r.ctx, r, func(cr pgx.CollectableRow) (foundRun, error) { return scanFoundRun(cr, r.user) }, `
		SELECT d.id, d.record, r.record, r.progress
		FROM posthaste.run_dead_letters d JOIN posthaste.runs r ON r.user_id = d.user_id AND r.position = d.run
		WHERE d.user_id = $1 AND d.id = $2`, r.user, int64(id))
	if err != nil {
		return nil, nil, err
	}
	return found.letter, r.firstRead(found.run), nil
}

func (r *runTx) RemoveFromDLQ(run *posthaste.Run) {
	id := run.DeadLetterID
	r.removed[posthaste.Position(id)] = true
	r.stage(func() error {
		gone, err := rows(r.ctx, r, pgx.RowToStructByPos[removedRow], `
			DELETE FROM posthaste.run_dead_letters WHERE user_id = $1 AND id = $2 RETURNING id, octet_length(record)`,
			r.user, int64(id))
		r.countRemoved(usageKey{user: r.user, kind: usageFailedRuns}, gone)
		r.unindex(r.user, usageFailedRuns, []int64{int64(id)})
		return err
	})
}
