package lsm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"posthaste"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// run looks at a key of what belongs to runs.
func (c *checker) run(key, value []byte) error {
	if key[1] == runDeadline {
		return c.deadline(key)
	}
	user, tail, err := userKey(key[2:])
	if err != nil {
		return err
	}
	switch key[1] {
	case runEnvelope:
		return c.runRecord(user, tail)
	case runProgress:
		return c.existsRun(user, tail, "progress")
	case runEntry:
		return c.runEntry(user, tail, value)
	case runLatest:
		return c.existsRun(user, value, "latest")
	case runMemory, runEvent:
		return c.existsRun(user, tail[:min(8, len(tail))], "memory")
	case runWaiter:
		return c.waiter(user, tail, value)
	case runTopic:
		return c.topic(user, tail, value)
	case runPosting:
		return c.lonePosting(fmt.Sprintf("runs of user %q", user), tail)
	case runDeadLetter:
		return c.runLetter(user, tail, value)
	case runDeadLetterPosting:
		return c.lonePosting(fmt.Sprintf("failed runs of user %q", user), tail)
	case runDeadLetterID:
		return c.letterID(user, tail)
	default:
		return errors.New("keys of this part of runs are not known")
	}
}

// existsRun returns an error unless there is a run at the position that a record tells.
func (c *checker) existsRun(user string, position []byte, of string) error {
	at, err := parsePosition(position)
	if err != nil {
		return err
	}
	return c.exists(appendRunKey(nil, runEnvelope, user, at), "%s of a run, which is not there", of)
}

// runRecord: a run has its progress, a list as long as that says, and is in the index.
func (c *checker) runRecord(user string, tail []byte) error {
	at, err := parsePosition(tail)
	if err != nil {
		return err
	}
	run, err := readRun(c.db, user, at)
	if err != nil {
		return err
	}
	entries, err := readEntries(c.db, user, at, -1)
	if err != nil {
		return err
	}
	for i, entry := range entries {
		if entry.Index != i {
			return fmt.Errorf("run %s: entry %d of its list is not there", run.ID, i)
		}
	}
	if len(entries) != run.Entries {
		return fmt.Errorf("run %s: its list has %d entries, and should have %d", run.ID, len(entries), run.Entries)
	}
	c.report.Runs++
	c.counts[string(appendCountKey(nil, countedRuns, user))]++
	c.indexed(fmt.Sprintf("runs of user %q", user), at, index.Run(run))
	return nil
}

func (c *checker) runEntry(user string, tail, value []byte) error {
	if len(tail) != 8+4 {
		return errCorrupt
	}
	if _, err := record.DecodeRunEntry(int(binary.BigEndian.Uint32(tail[8:])), value); err != nil {
		return err
	}
	return c.existsRun(user, tail[:8], "entry")
}

// runLetter: an entry of the DLQ is of a run, and is found by its terms and its id.
func (c *checker) runLetter(user string, tail, value []byte) error {
	at, err := parsePosition(tail)
	if err != nil {
		return err
	}
	id := posthaste.DeadLetterID(at)
	_, place, err := readRunLetter(c.db, user, id)
	if err != nil {
		return err
	}
	run, err := readRun(c.db, user, place)
	if err != nil {
		return fmt.Errorf("entry %s of the DLQ: its run: %w", id, err)
	}
	c.report.FailedRuns++
	c.counts[string(appendCountKey(nil, countedFailedRuns, user))]++
	c.indexed(fmt.Sprintf("failed runs of user %q", user), at, index.FailedRun(run))
	return c.exists(appendLetterIDKey(nil, user, run.ID, id), "entry %s of the DLQ is not found by the id of its run", id)
}

func (c *checker) letterID(user string, tail []byte) error {
	if len(tail) < 8 {
		return errCorrupt
	}
	at := posthaste.Position(binary.BigEndian.Uint64(tail[len(tail)-8:]))
	return c.exists(appendRunKey(nil, runDeadLetter, user, at), "id of an entry of the DLQ, which is not there")
}

// waiter: what waits is of a run, and is found by its topic and its deadline.
func (c *checker) waiter(user string, tail, value []byte) error {
	if len(tail) != 8+8 {
		return errCorrupt
	}
	at := posthaste.Position(binary.BigEndian.Uint64(tail[8:]))
	w, err := record.DecodeWaiter(at, value)
	if err != nil {
		return err
	}
	if err := c.existsRun(user, tail[:8], "waiter"); err != nil {
		return err
	}
	if !w.Deadline.IsZero() {
		if err := c.exists(appendDeadlineKey(nil, user, w), "a waiter's deadline would never come"); err != nil {
			return err
		}
	}
	return c.exists(appendTopicKey(nil, user, w.Topic, at), "a waiter would never be notified")
}

func (c *checker) topic(user string, tail, value []byte) error {
	run, err := parsePosition(value)
	if err != nil || len(tail) < 8 {
		return errCorrupt
	}
	at := posthaste.Position(binary.BigEndian.Uint64(tail[len(tail)-8:]))
	return c.exists(appendWaiterKey(nil, user, run, at), "a topic waits for somebody who is not there")
}

func (c *checker) deadline(key []byte) error {
	_, due, err := parseDeadlineKey(key)
	if err != nil {
		return err
	}
	return c.exists(appendWaiterKey(nil, due.User, due.Run, due.Position), "the deadline of a waiter, which is not there")
}
