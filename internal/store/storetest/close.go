package storetest

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"posthaste"
	"posthaste/internal/store"
)

var closePromises = []promise{
	{"closing twice is harmless", func(tr *trial) {
		for range 2 {
			if err := tr.store.Close(); err != nil {
				tr.Errorf("Close = %v", err)
			}
		}
	}},
	{"calls on a closed store fail", func(tr *trial) {
		m := tr.accept()
		claim := tr.claimOne(m)
		tr.ok(tr.store.Close())
		for method, err := range callAll(tr.Context(), tr.store, claim) {
			tr.wantErr(store.ErrClosed, err, method)
		}
	}},
	{"calls in progress fail or succeed", func(tr *trial) {
		var calling sync.WaitGroup
		begun := make(chan struct{}, 1)
		for n := range 8 {
			makes := newMaker(uint64(200 + n))
			calling.Go(func() {
				for {
					err := accept(tr.Context(), tr.store, tr.now, makes.message(tr.now))
					if errors.Is(err, store.ErrClosed) {
						return
					}
					if err != nil {
						tr.Errorf("Accept while closing = %v, want none or ErrClosed", err)
						return
					}
					select {
					case begun <- struct{}{}:
					default:
					}
				}
			})
		}
		<-begun
		if err := tr.store.Close(); err != nil {
			tr.Error(err)
		}
		calling.Wait()
	}},
}

// callAll calls every method of a store but those that return no error, and InFlight, which may be
// answered from memory.
func callAll(ctx context.Context, s store.Store, claim store.Claim) map[string]error {
	m, now := claim.Message, claim.Message.CreatedAt
	fresh := newMaker(98).message(now)
	given := map[reflect.Type]reflect.Value{reflect.TypeFor[context.Context](): reflect.ValueOf(ctx)}
	for _, value := range []any{
		now, m.User, 1, m.ID, []posthaste.MessageID{m.ID}, posthaste.DeadLetterID(1), []posthaste.DeadLetterID{1}, posthaste.Position(1),
		[]store.Submission{{Messages: []*posthaste.Message{fresh}}}, []*posthaste.Message{fresh}, store.Delivered(claim), []store.Claim{claim},
		store.Horizon{Log: now, DeadLetters: now, Runs: now}, &posthaste.Schedule{ID: "s", User: m.User}, &posthaste.BulkAction{ID: "a", User: m.User},
	} {
		given[reflect.TypeOf(value)] = reflect.ValueOf(value)
	}
	argument := func(t reflect.Type) reflect.Value {
		if value, ok := given[t]; ok {
			return value
		}
		if t.Kind() == reflect.Func {
			return reflect.MakeFunc(t, func([]reflect.Value) (results []reflect.Value) {
				for result := range t.Outs() {
					results = append(results, reflect.Zero(result))
				}
				return results
			})
		}
		return reflect.Zero(t)
	}
	results := map[string]error{}
	for method := range reflect.TypeFor[store.Store]().Methods() {
		if method.Type.Out(method.Type.NumOut()-1) != reflect.TypeFor[error]() || method.Name == "Close" || method.Name == "InFlight" {
			continue
		}
		var arguments []reflect.Value
		for i := range method.Type.NumIn() {
			if !method.Type.IsVariadic() || i < method.Type.NumIn()-1 {
				arguments = append(arguments, argument(method.Type.In(i)))
			}
		}
		out := reflect.ValueOf(s).MethodByName(method.Name).Call(arguments)
		results[method.Name], _ = out[len(out)-1].Interface().(error)
	}
	return results
}

// errorOf drops what a call answers.
func errorOf[T any](_ T, err error) error { return err }
