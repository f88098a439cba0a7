package postgres

import (
	"bytes"
	"errors"
	"fmt"

	"posthaste"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// runs checks records, ids, terms, entries, and the DLQ of runs.
func (c *checker) runs() error {
	var run storedRun
	err := c.scan([]any{&run.user, &run.at, &run.id, &run.envelope, &run.progress, &run.completed, &run.terms, &run.entries, &run.next}, func() {
		c.Runs++
		c.report(run.check(), "run at %d of user %q", run.at, run.user)
	}, `
		SELECT user_id, position, id, record, progress, completed,
			ARRAY(SELECT term FROM posthaste.terms t WHERE t.user_id = r.user_id AND t.kind = 7 AND t.at = r.position),
			(SELECT count(*) FROM posthaste.run_entries e WHERE e.user_id = r.user_id AND e.run = r.position),
			(SELECT coalesce(max(entry) + 1, 0) FROM posthaste.run_entries e WHERE e.user_id = r.user_id AND e.run = r.position)
		FROM posthaste.runs r`)
	if err != nil {
		return err
	}
	var user string
	var at int64
	var entry int
	var data []byte
	err = c.scan([]any{&user, &at, &entry, &data}, func() {
		_, err := record.DecodeRunEntry(entry, data)
		c.report(err, "entry %d of the run at %d of user %q", entry, at, user)
	}, `SELECT user_id, run, entry, record FROM posthaste.run_entries`)
	if err != nil {
		return err
	}
	var id int64
	var envelope, progress []byte
	var terms []int64
	return c.scan([]any{&user, &id, &data, &envelope, &progress, &terms}, func() {
		c.FailedRuns++
		c.report(checkFailedRun(user, id, data, envelope, progress, terms), "failed run %s of user %q", posthaste.DeadLetterID(id), user)
	}, `
		SELECT d.user_id, d.id, d.record, r.record, r.progress,
			ARRAY(SELECT term FROM posthaste.terms t WHERE t.user_id = d.user_id AND t.kind = 15 AND t.at = d.id)
		FROM posthaste.run_dead_letters d LEFT JOIN posthaste.runs r ON r.user_id = d.user_id AND r.position = d.run`)
}

// storedRun is a row of runs and what other tables say of it.
type storedRun struct {
	user               string
	at                 int64
	id                 []byte
	envelope, progress []byte
	completed          *int64
	terms              []int64
	entries, next      int // of its list, and the number after the last
}

func (r *storedRun) check() error {
	run, err := decodeRun(r.user, r.envelope, r.progress)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(r.id, shortHash(run.ID)):
		return fmt.Errorf("it is not found by its id, %s", run.ID)
	case r.entries != run.Entries || r.next != run.Entries:
		return fmt.Errorf("its list has %d entries up to number %d, and should have %d", r.entries, r.next, run.Entries)
	}
	if err := same("when it ended", r.completed, completedAt(run)); err != nil {
		return err
	}
	return sameTerms(r.terms, index.Run(run))
}

// checkFailedRun returns what is wrong with an entry of the DLQ of runs.
func checkFailedRun(user string, id int64, data, envelope, progress []byte, terms []int64) error {
	if _, err := decodeDeadLetter(user, id, data); err != nil {
		return err
	}
	if envelope == nil {
		return errors.New("its run is missing")
	}
	run, err := decodeRun(user, envelope, progress)
	if err != nil {
		return nil // reported with the run
	}
	return sameTerms(terms, index.FailedRun(run))
}

func decodeDeadLetter(user string, id int64, data []byte) (*posthaste.DeadLetter, error) {
	return record.DecodeDeadLetter(posthaste.DeadLetterID(id), user, data)
}

// waits checks waiters, and that all that belongs to a run has one.
func (c *checker) waits() error {
	var user string
	var run, at int64
	var topic, data []byte
	var deadline *int64
	err := c.scan([]any{&user, &run, &at, &topic, &deadline, &data}, func() {
		w, err := record.DecodeWaiter(posthaste.Position(at), data)
		if err == nil && !bytes.Equal(topic, shortHash(string(w.Topic))) {
			err = errors.New("it would never be notified")
		}
		if err == nil {
			err = same("its deadline", deadline, milli(w.Deadline))
		}
		c.report(err, "waiter at %d of the run at %d of user %q", at, run, user)
	}, `SELECT user_id, run, position, topic, deadline, record FROM posthaste.waiters`)
	if err != nil {
		return err
	}
	for _, table := range []string{"run_entries", "run_memory", "run_events", "waiters"} {
		err := c.reportRows(`run at %[2]d of user %[1]q: it is not there, and has rows in `+table, `
			SELECT DISTINCT user_id, run FROM posthaste.`+table+` o
			WHERE NOT EXISTS (SELECT FROM posthaste.runs r WHERE r.user_id = o.user_id AND r.position = o.run)`)
		if err != nil {
			return err
		}
	}
	return nil
}
