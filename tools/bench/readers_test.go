package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestReadersReadUntilTheirInputEnds lets readers ask a log, and hang up when they have read.
func TestReadersReadUntilTheirInputEnds(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != messageLog || r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		asked.Add(1)
		_, _ = io.WriteString(w, `{"events":[]}`)
	}))
	defer server.Close()
	defer pageClient.CloseIdleConnections()
	in, hangUp := io.Pipe()
	told, tell := io.Pipe()
	defer func() { _ = told.Close() }()
	ended := make(chan error, 1)
	go func() { ended <- RunReaders(t.Context(), strings.TrimPrefix(server.URL, "http://"), "token", in, tell) }()
	if line, err := bufio.NewReader(told).ReadString('\n'); err != nil || asked.Load() == 0 {
		t.Errorf("they say %q, %v, after %d pages", line, err, asked.Load())
	}
	_ = hangUp.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestReadersTellOfARefusal lets readers ask a server that refuses them.
func TestReadersTellOfARefusal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":"no"}`, http.StatusUnauthorized)
	}))
	defer server.Close()
	defer pageClient.CloseIdleConnections()
	in, hangUp := io.Pipe()
	defer func() { _ = hangUp.Close() }()
	err := RunReaders(t.Context(), strings.TrimPrefix(server.URL, "http://"), "token", in, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("RunReaders = %v, want an error with the status", err)
	}
}

func TestPartsOfAnExtent(t *testing.T) {
	for _, test := range []struct {
		whole extent
		of    int
		want  extent
	}{
		{extent{duration: 6 * time.Second}, 4, extent{duration: 1500 * time.Millisecond}},
		{extent{messages: 10}, 4, extent{messages: 3}},
		{extent{messages: 1}, 4, extent{messages: 1}},
	} {
		if got := test.whole.part(test.of); got != test.want {
			t.Errorf("one of %d parts of %+v is %+v, want %+v", test.of, test.whole, got, test.want)
		}
	}
}
