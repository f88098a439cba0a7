package storetest

import (
	"bytes"
	"net/http"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Contract, messages 6.4.
var acceptPromises = []promise{
	{"message can be read, logged and claimed at once", func(tr *trial) {
		m := tr.accept()
		tr.same("status", store.Status{Message: m, State: posthaste.StateCreated, NextAttemptAt: m.NotBefore}, tr.status(m))
		tr.same("log", "CREATED", statesText(tr.logOf(m)))
		tr.same("claimed message", m, tr.claimOne(m).Message)
	}},
	{"every field is kept", func(tr *trial) {
		m := tr.accept(withEverything)
		tr.same("message read", m, tr.status(m).Message)
		tr.same("message logged", m, tr.logOf(m)[0].Message)
		tr.same("message claimed", m, tr.claimOne(m).Message)
	}},
	{"bodies of every size are kept", func(tr *trial) {
		for _, size := range []int{0, 1, 4 << 10, 1 << 20} {
			m := tr.accept(func(m *posthaste.Message) { m.Body = bytes.Repeat([]byte{'x'}, size) })
			for where, got := range map[string]*posthaste.Message{
				"read": tr.status(m).Message, "logged": tr.logOf(m)[0].Message, "claimed": tr.claimOne(m).Message,
			} {
				if !bytes.Equal(m.Body, got.Body) {
					tr.Errorf("message %s with a body of %d bytes, want %d", where, len(got.Body), size)
				}
			}
		}
	}},
	{"many messages are one commit", func(tr *trial) {
		messages := tr.acceptMany(100)
		entries := tr.wholeLog(ann)
		if len(entries) != len(messages) {
			tr.Fatalf("%d events after %d messages", len(entries), len(messages))
		}
		for i, e := range entries {
			if e.MessageID != messages[i].ID || e.State != posthaste.StateCreated {
				tr.Errorf("event %d is %s of %s, want CREATED of %s", i, e.State, e.MessageID, messages[i].ID)
			}
		}
	}},
	{"CREATED says when a delayed message is due", func(tr *trial) {
		prompt, late := tr.accept(), tr.accept(delayed(time.Hour))
		if got := tr.logOf(prompt)[0].NextDeliveryAt; !got.IsZero() {
			tr.Errorf("CREATED of a message without delay says %v, want nothing", got)
		}
		if got := tr.logOf(late)[0].NextDeliveryAt; !got.Equal(late.NotBefore) {
			tr.Errorf("CREATED of a delayed message says %v, want %v", got, late.NotBefore)
		}
	}},
	{"a repeated submission is answered with the ids of the first", func(tr *trial) {
		first := tr.submit("key", ann, tr.message(), tr.message())
		tr.wait(store.DedupWindow - time.Millisecond)
		again := tr.submit("key", ann, tr.neverAccepted())
		tr.same("answer to the repetition", store.Accepted{IDs: first.IDs, Deduplicated: true}, again)
		tr.same("log", "CREATED CREATED", statesText(tr.wholeLog(ann)))
		if claims, _ := tr.claim(plenty); len(claims) != 2 {
			tr.Errorf("%d messages are due, want the two of the first submission", len(claims))
		}
	}},
	{"a submission is remembered for a while only", func(tr *trial) {
		tr.submit("key", ann, tr.message())
		tr.wait(store.DedupWindow / 2)
		tr.submit("key", ann, tr.neverAccepted()) // does not make it last longer
		tr.wait(store.DedupWindow / 2)
		if again := tr.submit("key", ann, tr.message()); again.Deduplicated {
			tr.Error("a submission is repeated that was accepted a whole window ago")
		}
	}},
	{"a submission is no repetition of one that was cancelled", func(tr *trial) {
		first := tr.message(delayed(time.Hour))
		tr.submit("key", ann, first)
		tr.wantCancels(1, first)
		tr.wantTakenOver(first)
	}},
	{"a submission is no repetition of one that has failed for good", func(tr *trial) {
		first := tr.message()
		tr.submit("key", ann, first)
		claim := tr.claimOne(first)
		tr.settle(store.RetryAt(claim, tr.now, refused))
		tr.wantRepeated(first)
		tr.settle(store.Failed(tr.claimOne(first), refused))
		tr.wantTakenOver(first)
	}},
	{"a submission is no repetition of one whose cancellation in flight was granted", func(tr *trial) {
		first := tr.message()
		tr.submit("key", ann, first)
		claim := tr.claimOne(first)
		tr.wantCancels(1, first)
		tr.wantRepeated(first)
		tr.settle(store.Failed(claim, refused))
		tr.wantTakenOver(first)
	}},
	{"a submission repeats one that was delivered although its cancellation was asked for", func(tr *trial) {
		first := tr.message()
		tr.submit("key", ann, first)
		claim := tr.claimOne(first)
		tr.wantCancels(1, first)
		tr.settle(store.Delivered(claim))
		tr.wantRepeated(first)
	}},
	{"a submission is no repetition of one whose queue was deleted", func(tr *trial) {
		first := tr.message(through("q"))
		tr.submit("key", ann, first)
		tr.deleteQueue("q")
		tr.wantTakenOver(first)
	}},
	{"a submission of several messages is repeated while one of them was or may be delivered", func(tr *trial) {
		delivered, failed, waits := tr.message(), tr.message(), tr.message(delayed(time.Hour))
		tr.submit("key", ann, delivered, failed)
		claims := tr.claimThese(delivered, failed)
		tr.settle(store.Failed(claims[1], refused))
		tr.wantRepeated(delivered, failed)
		tr.settle(store.Delivered(claims[0]))
		tr.wantRepeated(delivered, failed)

		cancelled := tr.message(delayed(time.Hour))
		tr.submit("other", ann, cancelled, waits)
		tr.wantCancels(1, cancelled)
		if again := tr.submit("other", ann, tr.neverAccepted()); !again.Deduplicated {
			tr.Error("a submission is accepted of which a message still waits")
		}
		tr.wantCancels(1, waits)
		if again := tr.submit("other", ann, tr.message()); again.Deduplicated {
			tr.Error("a submission repeats one of which nothing can be delivered")
		}
	}},
	{"different submissions do not meet", func(tr *trial) {
		tr.submit("key", ann, tr.message())
		for _, other := range []store.Accepted{
			tr.submit("key", anna, tr.message(ownedBy(anna))),
			tr.submit("Key", ann, tr.message()),
			tr.submit("", ann, tr.message()),
			tr.submit("", ann, tr.message()),
		} {
			if other.Deduplicated {
				tr.Error("a submission was taken for another one")
			}
		}
	}},
	{"a submission repeated within one call is accepted once", func(tr *trial) {
		first, other := tr.message(), tr.message()
		accepted, err := tr.store.Accept(tr.Context(), tr.now, []store.Submission{
			{Messages: []*posthaste.Message{first}, DedupKey: "key"},
			{Messages: []*posthaste.Message{tr.neverAccepted()}, DedupKey: "key"},
			{Messages: []*posthaste.Message{other}},
		})
		if err != nil {
			tr.Fatal(err)
		}
		tr.same("answers", []store.Accepted{
			{IDs: []posthaste.MessageID{first.ID}},
			{IDs: []posthaste.MessageID{first.ID}, Deduplicated: true},
			{IDs: []posthaste.MessageID{other.ID}},
		}, accepted)
		tr.same("log", "CREATED CREATED", statesText(tr.wholeLog(ann)))
	}},
	{"what belongs to one user does not exist for another", func(tr *trial) {
		mine, theirs := tr.accept(), tr.accept(ownedBy(anna))
		for user, foreign := range map[string]*posthaste.Message{ann: theirs, anna: mine, "an": mine} {
			tr.wantErr(store.ErrNotFound, errorOf(tr.store.Message(tr.Context(), user, foreign.ID)))
			for _, e := range tr.wholeLog(user) {
				if e.Message.User != user {
					tr.Errorf("log of %q shows an event of %q", user, e.Message.User)
				}
			}
		}
	}},
}

// wantRepeated requires that "key" stands for these messages.
func (tr *trial) wantRepeated(first ...*posthaste.Message) {
	tr.Helper()
	again := tr.submit("key", ann, tr.neverAccepted())
	tr.same("answer to the repetition", store.Accepted{IDs: idsOfMessages(first), Deduplicated: true}, again)
}

// wantTakenOver requires that "key" is free again after a message has ended. Another one
// has it then, which the end of the first does not take from it, later in the window too.
func (tr *trial) wantTakenOver(first *posthaste.Message) {
	tr.Helper()
	second := tr.message(delayed(time.Hour))
	if again := tr.submit("key", ann, second); again.Deduplicated {
		tr.Fatalf("answered as a repetition of a message that was not delivered")
	}
	tr.wantCancels(0, first)
	tr.wait(store.DedupWindow - time.Millisecond)
	tr.wantRepeated(second)
	tr.wait(time.Millisecond)
	if again := tr.submit("key", ann, tr.message()); again.Deduplicated {
		tr.Error("a submission is repeated that was accepted a whole window ago")
	}
}

func idsOfMessages(messages []*posthaste.Message) []posthaste.MessageID {
	s := store.Submission{Messages: messages}
	return s.IDs()
}

// submit has one submission accepted.
func (tr *trial) submit(key, user string, messages ...*posthaste.Message) store.Accepted {
	tr.Helper()
	for _, m := range messages {
		m.User = user
	}
	accepted, err := tr.store.Accept(tr.Context(), tr.now, []store.Submission{{Messages: messages, DedupKey: key}})
	if err != nil || len(accepted) != 1 {
		tr.Fatalf("Accept = %v, %v, want one answer", accepted, err)
	}
	return accepted[0]
}

// withEverything gives a message a value in each field.
func withEverything(m *posthaste.Message) {
	retries := 0
	m.URL = "https://user@Example.com:8443/a/b%2Fc?q=1#f"
	m.Body = []byte{0, 1, 0xff}
	m.NotBefore = m.CreatedAt
	m.CallerIP = "2001:db8::1"
	m.Queue = "queue"
	m.URLGroup = "group"
	m.Endpoint = "endpoint"
	m.ScheduleID = "schedule"
	m.SourceID = posthaste.MessageID{1, 2, 3}
	m.Settings = posthaste.Settings{
		Method:     http.MethodPatch,
		Header:     http.Header{"Content-Type": {"text/plain"}, "X-Latin": {"caf\xe9", ""}},
		Retries:    &retries,
		RetryDelay: "pow(2, retried)",
		Timeout:    1500 * time.Millisecond,
		Labels:     []string{"red", "blue"},
		FlowControl: posthaste.FlowControl{
			Key:       "key",
			FlowLimit: posthaste.FlowLimit{Parallelism: 5, Rate: 7, Period: time.Minute},
		},
		Redact:  posthaste.Redaction{Body: true, Headers: []string{"X-Latin"}},
		Dialect: posthaste.DialectUpstash,
	}
	callback := posthaste.Callback{
		URL:      "http://callback.example/",
		Delay:    time.Second,
		Settings: posthaste.Settings{Method: http.MethodGet, Retries: &retries},
		Given:    http.Header{"Upstash-Retries": {"0"}},
	}
	failure := callback
	failure.URL = "http://failure.example/"
	m.Callback, m.FailureCallback = &callback, &failure
}

var messagePromises = []promise{
	{"an unknown message is not found", func(tr *trial) {
		tr.wantErr(store.ErrNotFound, errorOf(tr.store.Message(tr.Context(), ann, tr.neverAccepted().ID)))
	}},
	{"says where a message stands through its life", life(
		"delayed wait claim release claim retry wait claim deliver", "CREATED ACTIVE ACTIVE ERROR RETRY ACTIVE DELIVERED",
	)},
	{"says how a message ended", life("accepted claim fail", "CREATED ACTIVE ERROR FAILED")},
}

// neverAccepted makes a message that the store is never given.
func (tr *trial) neverAccepted() *posthaste.Message {
	return newMaker(99).message(tr.now)
}

// refused is the outcome of an attempt that failed with an answer.
var refused = posthaste.Outcome{
	Error: "the destination answered 503",
	Response: &posthaste.Response{
		Status:    http.StatusServiceUnavailable,
		Header:    http.Header{"Retry-After": {"1"}, "Set-Cookie": {"a", "b"}},
		Body:      []byte("busy"),
		Truncated: true,
	},
}

// unreachable is the outcome of an attempt that got no answer.
var unreachable = posthaste.Outcome{Error: "connection refused"}
