package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// history makes messages as a busy service might have sent them: a few URLs get
// most of them and thousands get some, most are delivered at once, some after a
// retry, and a few never.
type history struct {
	user  string
	size  int // of a body, in bytes
	until time.Time
	span  time.Duration // before until, over which the messages are spread
	total int           // messages

	destination string // under which the URLs of hosts are; "": hosts of their own
	fails       bool   // every message, at once
	runs        int    // that each batch begins, whose deliveries are among its messages

	accepted atomic.Int64

	known    posthaste.MessageID // of a message at a quarter of the history, which ended before its middle
	knownRun string              // the id of a run there
}

// Sizes of the populations, and how skewed they are.
const (
	historyHosts   = 2000
	historyLabels  = 500
	historyQueues  = 50
	historyGroups  = 20
	historyTimers  = 20
	historyKeys    = 200
	historyCallers = 100
	historySkew    = 1.2

	rareName  = "rare" // of what few messages have
	rareTimes = 100    // or nearly, however long the log is
)

// Shares of what is not the rule.
const (
	shareRetried = 0.08
	shareFailed  = 0.01
	shareQueued  = 0.15
	shareGrouped = 0.10
	shareTimed   = 0.05
	shareKeyed   = 0.20
	shareLabeled = 0.60
	shareGone    = 0.10
)

const (
	historyWriters = 2                 // more come in bursts at first, and commits are larger then than later on
	historyBatch   = 100               // messages: most are accepted in one commit, those of runs in another
	historyClaim   = 16 * historyBatch // that are claimed at once, if so many are due: a host gets an eighth
)

// written is what a history became.
type written struct {
	entries int64 // of the log
	bytes   int64 // that were written to disk
}

// write stores the history in a store that no program uses.
func (h *history) write(ctx context.Context, data string) (w written, err error) {
	s, err := ledger.Over(lsm.Open(data, lsm.Options{Logger: slog.New(slog.DiscardHandler)}))
	if err != nil {
		return written{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := h.writeTo(ctx, s); err != nil {
		return written{}, err
	}
	usage, err := s.Usage(ctx, "")
	if err != nil {
		return written{}, err
	}
	stats, err := s.Stats(ctx, h.until)
	return written{usage.Log.Entries, stats.WrittenBytes}, err
}

func (h *history) writeTo(ctx context.Context, s store.Store) error {
	if err := h.prepare(ctx, s); err != nil {
		return err
	}
	if err := byAll(func(random *mathrand.Rand) error { return h.writeSome(ctx, s, random) }); err != nil {
		return err
	}
	return byAll(func(random *mathrand.Rand) error { return h.deliverRest(ctx, s, random) })
}

// prepare stores what the history's messages need.
func (h *history) prepare(ctx context.Context, s store.Store) error {
	for i := range historyQueues {
		err := s.UpdateQueue(ctx, h.until.Add(-h.span), h.user, fmt.Sprintf("queue-%d", i), func(q *posthaste.Queue) error {
			q.Parallelism = historyBatch
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// byAll lets all writers work, each with random numbers of its own.
func byAll(work func(random *mathrand.Rand) error) error {
	var writers sync.WaitGroup
	failures := make([]error, historyWriters)
	for i := range failures {
		writers.Go(func() { failures[i] = work(mathrand.New(mathrand.NewPCG(1, uint64(i)))) })
	}
	writers.Wait()
	return cmp.Or(failures...)
}

// deliverRest delivers what was left waiting: far back in a long history, where the disk is
// asked for each message.
func (h *history) deliverRest(ctx context.Context, s store.Store, random *mathrand.Rand) error {
	for {
		if n, err := h.deliver(ctx, s, random, h.until); n == 0 || err != nil {
			return err
		}
	}
}

// writeSome stores batch after batch until the history is whole, and delivers them.
func (h *history) writeSome(ctx context.Context, s store.Store, random *mathrand.Rand) error {
	names := newPopulation(random)
	for {
		number := h.accepted.Add(historyBatch) - historyBatch
		if number >= int64(h.total) {
			return nil
		}
		if err := h.writeBatch(ctx, s, number, names); err != nil {
			return err
		}
		if _, err := h.deliver(ctx, s, random, h.at(number)); err != nil {
			return err
		}
	}
}

// writeBatch stores the messages from a number on, and begins runs.
func (h *history) writeBatch(ctx context.Context, s store.Store, number int64, names *population) error {
	now, size, runs := h.at(number), min(historyBatch, h.total-int(number)), 0
	if size == historyBatch {
		runs = h.runs
	}
	submissions := make([]store.Submission, size-runs*runDeliveries)
	for i := range submissions {
		m, err := h.message(now, number+int64(i), names)
		if err != nil {
			return err
		}
		submissions[i] = store.Submission{Messages: []*posthaste.Message{m}}
	}
	if _, err := s.Accept(ctx, now, submissions); err != nil {
		return err
	}
	begun, err := h.begin(ctx, s, now, runs, names)
	if behind := h.total/4 - int(number); behind >= 0 && behind < historyBatch {
		h.known = submissions[0].Messages[0].ID
		h.knownRun = begun
	}
	return err
}

// at returns when the message with a number was published.
func (h *history) at(number int64) time.Time {
	return h.until.Add(-h.span + time.Duration(float64(h.span)*float64(number)/float64(h.total)))
}

// middle is in the middle of the history.
func (h *history) middle() time.Time { return h.until.Add(-h.span / 2) }

// deliver claims what is due and settles it. It returns how much that was.
func (h *history) deliver(ctx context.Context, s store.Store, random *mathrand.Rand, now time.Time) (int, error) {
	claims, _, err := s.Claim(ctx, now, historyClaim)
	if err != nil {
		return 0, err
	}
	var settling sync.WaitGroup
	failures := make([]error, len(claims))
	for i, claim := range claims {
		settlement := h.settle(claim, random, now)
		if claim.Message.Run != nil {
			settlement.UpdateRun = h.conclude
		}
		settling.Go(func() { _, failures[i] = s.Settle(ctx, now, settlement) })
	}
	settling.Wait()
	return len(claims), cmp.Or(failures...)
}

// settle decides what became of an attempt.
func (h *history) settle(claim store.Claim, random *mathrand.Rand, now time.Time) store.Settlement {
	broken := posthaste.Outcome{
		Class:    posthaste.OutcomeRetryable,
		Response: &posthaste.Response{Status: anyFailure(random), Header: http.Header{"Retry-After": {"1"}}, Body: []byte("try again later")},
		Error:    "the destination is not well",
	}
	switch chance := random.Float64(); {
	case h.fails || chance < shareFailed:
		return store.Failed(claim, broken)
	case chance < shareFailed+shareRetried:
		return store.RetryAt(claim, now, broken)
	default:
		return store.Delivered(claim)
	}
}

// anyFailure draws the status of an answer, one of them less often than the other.
func anyFailure(random *mathrand.Rand) int {
	if random.Float64() < shareGone {
		return http.StatusBadGateway
	}
	return http.StatusServiceUnavailable
}

// population draws from names, the first ones most often.
type population struct {
	*mathrand.Rand
	zipf map[int]*mathrand.Zipf // by size
}

func newPopulation(random *mathrand.Rand) *population {
	return &population{random, map[int]*mathrand.Zipf{}}
}

// one draws a name.
func (p *population) one(kind string, size int) string {
	zipf := p.zipf[size]
	if zipf == nil {
		zipf = mathrand.NewZipf(p.Rand, historySkew, 1, uint64(size-1))
		p.zipf[size] = zipf
	}
	return fmt.Sprintf("%s-%d", kind, zipf.Uint64())
}

// maybe draws a name for a share of the messages.
func (p *population) maybe(share float64, kind string, size int) string {
	if p.Float64() >= share {
		return ""
	}
	return p.one(kind, size)
}

// caller draws an address, all as often.
func (p *population) caller() string { return fmt.Sprintf("10.0.0.%d", p.IntN(historyCallers)) }

func (h *history) message(now time.Time, number int64, p *population) (*posthaste.Message, error) {
	id, err := posthaste.NewMessageID(now, rand.Reader)
	if err != nil {
		return nil, err
	}
	body := make([]byte, h.size)
	_, _ = rand.Read(body) // never fails
	m := &posthaste.Message{
		ID: id, User: h.user, CreatedAt: now, NotBefore: now,
		URL:        h.url(p.one("host", historyHosts)),
		URLGroup:   p.maybe(shareGrouped, "group", historyGroups),
		Queue:      p.maybe(shareQueued, "queue", historyQueues),
		ScheduleID: p.maybe(shareTimed, "schedule", historyTimers),
		CallerIP:   p.caller(),
		Settings: posthaste.Settings{
			Method:  http.MethodPost,
			Retries: new(3),
			Header:  http.Header{"Content-Type": {"application/octet-stream"}},
		},
		Body: body,
	}
	if label := p.maybe(shareLabeled, "label", historyLabels); label != "" {
		m.Labels = []string{label}
	}
	if every := int64(max(h.total/rareTimes, 1)); number%every == every/2 {
		m.Labels = []string{rareName}
		m.URL = h.url(rareName)
	}
	if key := p.maybe(shareKeyed, "key", historyKeys); key != "" {
		m.FlowControl = posthaste.FlowControl{Key: key, FlowLimit: posthaste.FlowLimit{Parallelism: math.MaxInt32}}
	}
	return m, nil
}

// url returns the URL of a host.
func (h *history) url(host string) string {
	if h.destination != "" {
		return h.destination + "/" + host
	}
	return "https://" + host + ".example.com/hook"
}
