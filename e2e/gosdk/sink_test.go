package gosdk

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// delivery is a request as its destination sees it.
type delivery struct {
	method string
	path   string // with the query
	header http.Header
	body   string
}

// sink is a destination that remembers what arrives. It answers 500 below
// /broken and 200 elsewhere.
type sink struct {
	url string

	mu         sync.Mutex
	deliveries map[string][]delivery // by message
}

// newSink starts a sink that ends with the test.
func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{deliveries: make(map[string][]delivery)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// ServeHTTP takes a delivery.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := r.Header.Get("Upstash-Message-Id")
	s.mu.Lock()
	s.deliveries[id] = append(s.deliveries[id], delivery{r.Method, r.RequestURI, r.Header, string(body)})
	s.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/broken") {
		http.Error(w, "broken", http.StatusInternalServerError)
	}
}

// delivered waits for a message and returns its first delivery.
func (s *sink) delivered(t *testing.T, messageID string) delivery {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		s.mu.Lock()
		deliveries := s.deliveries[messageID]
		s.mu.Unlock()
		if len(deliveries) > 0 {
			return deliveries[0]
		}
	}
	t.Fatalf("%s did not arrive", messageID)
	return delivery{}
}
