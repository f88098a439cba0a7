package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// endpointsOf returns endpoints with URLs of their own.
func endpointsOf(n int) []posthaste.Endpoint {
	endpoints := make([]posthaste.Endpoint, n)
	for i := range endpoints {
		endpoints[i].URL = fmt.Sprintf("http://a.example/%d", i)
	}
	return endpoints
}

// commits notes how many bytes of messages each acceptance has, and fails after some.
type commits struct {
	store.Store
	sizes  *[]int
	failAt int // -1: never
}

func (c commits) Accept(ctx context.Context, now time.Time, submissions []store.Submission) ([]store.Accepted, error) {
	if len(*c.sizes) == c.failAt {
		return nil, errors.New("disk on fire")
	}
	size := 0
	for _, s := range submissions {
		for _, m := range s.Messages {
			size += store.MessageSize(m)
		}
	}
	*c.sizes = append(*c.sizes, size)
	return c.Store.Accept(ctx, now, submissions)
}

// What a publication to a group comes to is bounded: by the number of its endpoints, and in
// bytes, for it is one commit.
func TestFanOutIsBounded(t *testing.T) {
	inWorld(t, answers(ok), engine.Options{}, func(w *world) {
		if err := w.AddEndpoints(w.t.Context(), user, "g", endpointsOf(posthaste.MaxEndpoints)); err != nil {
			t.Fatal(err)
		}
		again := w.AddEndpoints(w.t.Context(), user, "g", endpointsOf(1))
		more := w.AddEndpoints(w.t.Context(), user, "g", []posthaste.Endpoint{{URL: "http://b.example/"}})
		if again != nil || posthaste.ErrorCode(more) != posthaste.CodeInvalid {
			t.Errorf("one that is there: %v, one too many: %v", again, more)
		}
		_, err := w.Publish(w.t.Context(), user, engine.Publication{Destination: "g", Body: make([]byte, 1<<20)})
		if posthaste.ErrorCode(err) != posthaste.CodeTooLarge {
			t.Errorf("a megabyte for each of a thousand: %v, want %s", err, posthaste.CodeTooLarge)
		}
	})
}

// A batch of large messages is several commits. When one fails, what came before it is
// stored, and each of the others is told.
func TestLargeBatchIsSeveralCommits(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	for _, failAt := range []int{-1, 0, 1} {
		t.Run(fmt.Sprint(failAt), func(t *testing.T) {
			var sizes []int
			front := func(s store.Store) store.Store { return commits{s, &sizes, failAt} }
			inWorldOn(t, front, answers(ok), engine.Options{}, func(w *world) {
				batch := make([]engine.Publication, 40)
				for i := range batch {
					batch[i] = engine.Publication{Destination: "http://a.example/x", Body: make([]byte, 1<<20)}
				}
				results, err := w.PublishBatch(w.t.Context(), user, batch)
				if (err != nil) != (failAt == 0) {
					t.Fatalf("PublishBatch = %v", err)
				}
				for i, result := range results {
					if stored := failAt < 0 || i < 16; stored != (result.Err == nil) || stored != (len(result.Receipts) == 1) {
						t.Errorf("publication %d: %v", i, result)
					}
				}
				for _, size := range sizes {
					if size > 17<<20 {
						t.Errorf("a commit of %d bytes", size)
					}
				}
			})
		})
	}
}
