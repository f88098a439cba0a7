package postgres

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// Bounds of what is held in memory of the log.
const (
	blocksChecked = 256 // blocks that are read together
	messagesKnown = 1 << 15
)

// log compares each day of the log with its index and its counts.
func (c *checker) log() error {
	c.known, c.ends, c.older = map[messageOf]*knownMessage{}, map[string]posthaste.Position{}, map[string]bool{}
	var user string
	var end, dayMS, entries int64
	err := c.scan([]any{&user, &end}, func() {
		if c.ends[user] != 0 {
			c.Add("user %q: there are two rows, which say that the log ends at %d and %d", user, c.ends[user], end)
		}
		c.ends[user] = posthaste.Position(end)
	}, `SELECT user_id, position FROM posthaste.users`)
	if err != nil {
		return err
	}
	err = c.reportRows(`user %q: nothing says where the log ends`, `
		SELECT user_id FROM posthaste.indexed i WHERE NOT EXISTS (SELECT FROM posthaste.users u WHERE u.user_id = i.user_id)`)
	if err != nil {
		return err
	}
	days, err := c.days()
	if err != nil {
		return err
	}
	begins := make([]int64, len(days))
	for i, day := range days {
		if err := c.day(day); err != nil {
			return err
		}
		begins[i] = day.UnixMilli()
	}
	return c.scan([]any{&user, &dayMS, &entries}, func() {
		c.Add("log of user %q on %s: it has no events, and its count says %d", user, time.UnixMilli(dayMS).UTC().Format(time.DateOnly), entries)
	}, `SELECT user_id, day, entries FROM posthaste.kept WHERE kind = 13 AND entries <> 0 AND NOT day = ANY($1)`, begins)
}

// days returns the days with partitions, oldest first.
func (c *checker) days() (days []time.Time, err error) {
	err = c.each(func(r pgx.CollectableRow) error {
		var table string
		if err := r.Scan(&table); err != nil {
			return err
		}
		begins, err := time.Parse(dayFormat, strings.TrimPrefix(table, "events_"))
		days = append(days, begins)
		return err
	}, `
		SELECT relname::text FROM pg_class JOIN pg_inherits ON inhrelid = oid
		WHERE inhparent = 'posthaste.events'::regclass ORDER BY relname`)
	return days, err
}

// checkedDay is one day of the log, of all users.
type checkedDay struct {
	*checker
	span   span
	users  map[string]*checkedLog
	series index.CountCheck
}

// checkedLog is one day of a user's log.
type checkedLog struct {
	events int64
	sum    uint64             // of events minus postings: see mix
	least  *postingKey        // the first posting; nil: there is none
	end    posthaste.Position // of the events so far
	hours  map[int64]hourCheck
	broken bool // and reported; the index cannot agree
	unread bool // there are events whose message is not there
}

// hourCheck is what counts must have of an hour.
type hourCheck struct {
	more    int64 // events than are counted
	counted bool  // there are stored counts
}

func (d *checkedDay) of(user string) *checkedLog {
	if d.users[user] == nil {
		d.users[user] = &checkedLog{hours: map[int64]hourCheck{}}
	}
	return d.users[user]
}

func (c *checker) day(begins time.Time) error {
	d := &checkedDay{c, span{posthaste.FirstPosition(begins), posthaste.FirstPosition(begins.Add(day)) - 1}, map[string]*checkedLog{}, index.CountCheck{}}
	low, high := int64(d.span.low), int64(d.span.high)
	var user string
	var key postingKey
	var at, entries int64
	var data []byte
	err := c.scan([]any{&user, &key.Term, &key.First, &data}, func() { d.posting(user, key, data) },
		`SELECT user_id, term, first, gaps FROM posthaste.postings WHERE first BETWEEN $1 AND $2`, low, high)
	if err != nil {
		return err
	}
	left, err := d.left()
	if err != nil {
		return err
	}
	var hour int64
	var series []byte
	var what int32
	err = c.scan([]any{&user, &hour, &series, &what, &entries}, func() { d.counted(user, hour, string(series), index.StateCount{What: uint16(what), N: entries}, true) }, `
		SELECT user_id, hour, series, what, n FROM posthaste.counts WHERE hour >= $1 AND hour < $2`,
		begins.UnixMilli(), begins.Add(day).UnixMilli())
	if err != nil {
		return err
	}
	if err := d.blocks(); err != nil {
		return err
	}
	err = c.scan([]any{&user, &at, &data}, func() {
		_, damage := record.DecodeResponse(data)
		d.report(damage, "response of the event at %d of user %q", at, user)
	}, `SELECT user_id, first, record FROM posthaste.responses WHERE first BETWEEN $1 AND $2`, low, high)
	if err != nil {
		return err
	}
	counts := map[string]int64{}
	for user, number := range left {
		d.of(user)
		counts[user] = number
	}
	err = c.scan([]any{&user, &entries}, func() { d.of(user); counts[user] += entries },
		`SELECT user_id, entries FROM posthaste.kept WHERE kind = 13 AND day = $1`, begins.UnixMilli())
	if err != nil {
		return err
	}
	tooMany := d.series.TooMany()
	for user, log := range d.users {
		name := fmt.Sprintf("log of user %q on %s", user, begins.Format(time.DateOnly))
		if log.events != counts[user] {
			c.Add("%s: it has %d events, and its count says %d", name, log.events, counts[user])
		}
		for hour, check := range log.hours {
			if check.more != 0 && (check.counted || c.older[user]) { // retention removes the counts of the oldest day first, hour by hour
				c.Add("%s: the hour from %s has %d events more than are counted", name, time.UnixMilli(hour).UTC().Format(time.TimeOnly), check.more)
			}
		}
		for hour := range tooMany[user] {
			if !log.broken && !log.unread {
				c.Add("%s: the hour from %s has fewer events of a series than are counted", name, time.UnixMilli(hour).UTC().Format(time.TimeOnly))
			}
		}
		if log.sum != 0 && !log.broken {
			c.Add("%s: its index does not agree with the events", name)
		}
		c.older[user] = c.older[user] || log.events > 0
	}
	return nil
}

// left subtracts what commits of the day have left for the index, and returns how many events that are.
func (d *checkedDay) left() (map[string]int64, error) {
	number := map[string]int64{}
	err := d.each(func(r pgx.CollectableRow) error {
		left, err := scanLeft(r)
		if err != nil {
			return err
		}
		var add index.LogWriter
		if err := add.AddEntries(left.user, left.first, left.entries); err != nil {
			d.of(left.user).broken = true
			d.report(err, "log of user %q: what the block at %d adds to the index", left.user, left.first)
		}
		for _, p := range add.Postings {
			d.posting(left.user, postingKey{termColumn(p.Term), int64(p.First)}, p.Gaps)
		}
		for _, c := range add.Counts {
			for _, of := range c.Of {
				d.counted(left.user, c.Hour, c.Series, of, false)
			}
		}
		number[left.user] += int64(left.number)
		return nil
	}, `
		SELECT user_id, e.first, entries, coalesce(number, 0), coalesce(bytes, 0)
		FROM posthaste.events e LEFT JOIN posthaste.indexed i USING (user_id)
		WHERE e.first BETWEEN $1 AND $2 AND entries IS NOT NULL AND e.first > coalesce(i.first, 0)`, int64(d.span.low), int64(d.span.high))
	return number, err
}

// counted notes a count of an hour, which is stored or left for the index.
func (d *checkedDay) counted(user string, hour int64, series string, of index.StateCount, stored bool) {
	log := d.of(user)
	log.hours[hour] = hourCheck{log.hours[hour].more - of.N, log.hours[hour].counted || stored}
	d.series.Count(user, hour, series, of)
}

// posting subtracts the positions of a posting from the user's sum.
func (d *checkedDay) posting(user string, key postingKey, gaps []byte) {
	positions, err := index.DecodePosting(nil, posthaste.Position(key.First), gaps)
	log := d.of(user)
	if log.least == nil || key.before(*log.least) {
		log.least = &key
	}
	for _, at := range positions {
		log.sum -= d.mix(key.Term, at)
	}
	if err != nil {
		log.broken = true
		d.report(err, "index of the log of user %q: posting of term %d at %d", user, key.Term, key.First)
	}
}

func (k postingKey) before(o postingKey) bool {
	return k.Term < o.Term || k.Term == o.Term && k.First < o.First
}

// mix hashes a term with a position: two sets of them are the same if their sums are.
func (c *checker) mix(term int64, at posthaste.Position) uint64 {
	return maphash.Comparable(c.seed, struct {
		term int64
		at   posthaste.Position
	}{term, at})
}

type checkedBlock struct {
	user   string
	first  int64
	events []posthaste.Event
	damage error
}

func scanChecked(r pgx.CollectableRow) (b checkedBlock, err error) {
	var data []byte
	err = r.Scan(&b.user, &b.first, &data)
	b.events, b.damage = index.DecodeBlock(posthaste.Position(b.first), data, nil)
	return b, err
}

// blocks checks the events of the day in order, together with their messages.
func (d *checkedDay) blocks() error {
	var last checkedBlock
	for {
		some, err := rows(d.ctx, d.tx, scanChecked, `
			SELECT user_id, first, block FROM posthaste.events
			WHERE first BETWEEN $1 AND $2 AND (user_id, first) > ($3, $4) ORDER BY user_id, first LIMIT $5`,
			int64(d.span.low), int64(d.span.high), last.user, last.first, blocksChecked)
		if err != nil || len(some) == 0 {
			return err
		}
		d.Rows += int64(len(some))
		if err := d.learn(some); err != nil {
			return err
		}
		for _, b := range some {
			d.block(b)
		}
		last = some[len(some)-1]
	}
}

// knownMessage is what events of a message are found and counted by.
type knownMessage struct {
	*posthaste.Message // with no more than what it is counted by
	terms              []int64
}

// learn reads the messages of some blocks.
func (d *checkedDay) learn(blocks []checkedBlock) error {
	if len(d.known) > messagesKnown {
		clear(d.known)
	}
	var unknown []messageOf
	for _, b := range blocks {
		for _, e := range b.events {
			of := messageOf{b.user, e.MessageID}
			if _, known := d.known[of]; !known {
				d.known[of] = nil
				unknown = append(unknown, of)
			}
		}
	}
	if err := d.learnThese(unknown, func(of messageOf) []string { return []string{of.user} }); err != nil {
		return err
	}
	moved := slices.DeleteFunc(unknown, func(of messageOf) bool { return d.known[of] != nil })
	return d.learnThese(moved, func(of messageOf) []string { return d.division.Holders(store.UserOf(of.user), of.id) })
}

// learnThese reads messages where they are.
func (d *checkedDay) learnThese(wanted []messageOf, holders func(messageOf) []string) error {
	at := map[messageOf][]messageOf{}
	for _, of := range wanted {
		for _, user := range holders(of) {
			there := messageOf{user, of.id}
			at[there] = append(at[there], of)
		}
	}
	users, ids := messageColumns(slices.Collect(maps.Keys(at)))
	found, err := rows(d.ctx, d.tx, scanMessage, messagesByID, users, ids)
	d.Rows += int64(len(found))
	for _, m := range found {
		if m.message == nil {
			continue // it is reported with the message
		}
		for _, of := range at[m.messageOf] {
			d.known[of] = &knownMessage{
				terms:   termColumns(index.AppendMessage(nil, m.message)),
				Message: &posthaste.Message{User: of.user, URL: m.message.URL, Queue: m.message.Queue, Settings: posthaste.Settings{Labels: m.message.Labels}},
			}
		}
	}
	return err
}

func (d *checkedDay) block(b checkedBlock) {
	log := d.of(b.user)
	if b.damage != nil {
		log.broken = true
		d.Add("log of user %q: the block at %d is damaged", b.user, b.first)
	}
	for _, e := range b.events {
		if !e.State.OfRun() {
			hour := e.Position.Time().UTC().Truncate(time.Hour).UnixMilli()
			log.hours[hour] = hourCheck{log.hours[hour].more + 1, log.hours[hour].counted}
		}
		if err := d.event(b.user, log, &e); err != nil {
			log.broken = true
			d.report(err, "event at %d of user %q", e.Position, b.user)
		}
	}
	log.events += int64(len(b.events))
	d.Events += int64(len(b.events))
}

// event adds an event's terms to the user's sum. Retention removes a user's oldest day: first
// the postings, in order, then the events, with messages that later events of the day may be
// about. What it may have removed is not missed.
func (d *checkedDay) event(user string, log *checkedLog, e *posthaste.Event) error {
	before := log.end
	log.end = e.Position
	oldest := !d.older[user]
	m := d.known[messageOf{user, e.MessageID}]
	if m != nil {
		d.series.Event(m.Message, e)
	} else {
		log.unread = true
	}
	switch {
	case e.Position <= before:
		return fmt.Errorf("it follows one at %d", before)
	case e.Position > d.ends[user]:
		return fmt.Errorf("the log ends at %d", d.ends[user])
	case oldest && log.least == nil:
		return nil
	case m == nil:
		return errors.New("its message is not there, or cannot be read")
	default:
		for t := range distinct(m.terms, termColumns(index.AppendOwn(nil, e))) {
			if !oldest || !(postingKey{t, int64(e.Position)}).before(*log.least) {
				log.sum += d.mix(t, e.Position)
			}
		}
		return nil
	}
}

func distinct(terms, others []int64) map[int64]bool {
	set := map[int64]bool{}
	for _, t := range slices.Concat(terms, others) {
		set[t] = true
	}
	return set
}
