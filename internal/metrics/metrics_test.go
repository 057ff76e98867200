package metrics

import (
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"ringmq/engine"
	"ringmq/engine/commitlog"
	"ringmq/engine/consumequeue"
	"ringmq/engine/flush"
	"ringmq/engine/index"
	"ringmq/engine/scrub"
	"ringmq/engine/segment"
)

type fakeStore struct {
	latched, full error
	damages       []scrub.Damage
}

func (f *fakeStore) Positions() engine.Positions {
	return engine.Positions{End: 300, Committed: 250, Flushed: 200, Readable: 250, Dispatched: 240}
}
func (f *fakeStore) PoolRoom() (room, size int64) { return 4096 - 50, 4096 }
func (f *fakeStore) Latched() error               { return f.latched }
func (f *fakeStore) Counters() engine.Counters {
	c := engine.Counters{Store: new(engine.Metrics), Log: new(commitlog.Metrics), Flush: new(flush.Metrics), Segments: new(segment.Metrics), Queues: new(consumequeue.Metrics),
		Index: new(index.Metrics), Scrub: new(scrub.Metrics)}
	c.Flush.FlushSizes.Add(5000)
	c.Flush.CommitMicros.Add(3)
	c.Queues.FlushFiles.Add(64)
	c.Index.FlushSizes.Add(1 << 20)
	c.Flush.Flushes.Store(7)
	c.Flush.FlushNS.Store(1_500_000_000)
	c.Segments.Prepared.Store(3)
	return c
}
func (f *fakeStore) DiskFull() error         { return f.full }
func (f *fakeStore) Damages() []scrub.Damage { return f.damages }
func (f *fakeStore) Ring() (string, string)  { return "ring", "" }

func get(t *testing.T, store Store, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(store).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body)
}

func TestMetricsShowPositions(t *testing.T) {
	code, body := get(t, &fakeStore{}, "/metrics")
	if code != 200 {
		t.Fatal(code, body)
	}
	for _, line := range []string{
		`ringmq_log_position_bytes{position="end"} 300`, `rocketmq_storage_flush_behind_bytes 100`,
		`ringmq_log_position_bytes{position="committed"} 250`, `ringmq_commit_behind_bytes 50`, `ringmq_pool_bytes 4096`, `ringmq_pool_room_bytes 4046`,
		`rocketmq_storage_dispatch_behind_bytes 10`, `ringmq_latched 0`, `ringmq_uring 1`,
		`ringmq_flushes_total 7`, `ringmq_flush_seconds_total 1.5`, `ringmq_segments_prepared_total 3`,
		`ringmq_flush_size_bytes_bucket{le="4096"} 0`, `ringmq_flush_size_bytes_bucket{le="8192"} 1`, `ringmq_flush_size_bytes_sum 5000`,
		`ringmq_commit_duration_seconds_count 1`, `ringmq_queue_flush_files_bucket{le="64"} 1`, `ringmq_index_flush_size_bytes_sum 1.048576e+06`,
		`ringmq_commit_size_bytes_count 0`, `ringmq_queue_flush_duration_seconds_count 0`, `ringmq_queue_flush_size_bytes_count 0`, `ringmq_index_flush_duration_seconds_count 0`,
		`ringmq_flush_duration_seconds_bucket{le="0.001024"} 0`, `ringmq_flush_batch_messages_count 0`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
}

func TestHealthNamesTheLatch(t *testing.T) {
	store := &fakeStore{}
	if code, _ := get(t, store, "/healthz"); code != 200 {
		t.Error(code)
	}
	store.latched = errors.New("flush of 00000000000000000000 failed")
	if code, body := get(t, store, "/healthz"); code != 503 || !strings.Contains(body, "00000000000000000000") {
		t.Error(code, body)
	}
	if _, body := get(t, store, "/metrics"); !strings.Contains(body, "ringmq_latched 1\n") {
		t.Error("metric does not show the latch")
	}
}

// A full disk is not healthy for sends, and healthy again when it has room.
func TestHealthNamesAFullDisk(t *testing.T) {
	store := &fakeStore{full: errors.New("/data/commitlog is 93.1 % full")}
	if code, body := get(t, store, "/healthz"); code != 503 || !strings.Contains(body, "sends are refused: /data/commitlog is 93.1 % full") {
		t.Error(code, body)
	}
	if _, body := get(t, store, "/metrics"); !strings.Contains(body, "ringmq_disk_full 1\n") {
		t.Error("metric does not show the full disk")
	}
	store.full = nil
	if code, _ := get(t, store, "/healthz"); code != 200 {
		t.Error(code)
	}
}

// Damage found by the scrub is named; sends go on, so the answer stays ok.
func TestHealthNamesDamage(t *testing.T) {
	store := &fakeStore{}
	if _, body := get(t, store, "/healthz"); body != "ok\n" {
		t.Error(body)
	}
	store.damages = []scrub.Damage{{File: "/data/commitlog/00000000000000000000", Block: 3, Last: 4, From: 3 << 20, To: 5 << 20, Reason: "rotten"}}
	code, body := get(t, store, "/healthz")
	if code != 200 || body != "ok\ndamaged: /data/commitlog/00000000000000000000 block 3 to 4, offset 3145728 to 5242880: rotten\n" {
		t.Error(code, body)
	}
	if _, body := get(t, store, "/metrics"); !strings.Contains(body, "ringmq_log_damages 1\n") {
		t.Error("metric does not show the damage")
	}
}
