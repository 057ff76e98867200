package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"ringmq/broker"
	"ringmq/internal/config"
	"ringmq/internal/metrics"
)

// serveHTTP serves metrics, health and pprof, and returns how to stop that. A port that is taken only warns: the broker matters more.
func serveHTTP(v *config.Values, b *broker.Broker, logger *slog.Logger) (stop func()) {
	at := v.Text("ringmq.httpAddress")
	if at == "off" {
		return func() {}
	}
	listener, err := net.Listen("tcp", at)
	if err != nil {
		logger.Warn("no metrics: the port is taken", "ringmq.httpAddress", at, "error", err)
		return func() {}
	}
	s := &http.Server{Handler: metrics.Handler(b.Store()), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() {
		if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Warn("metrics ended", "error", err)
		}
	}()
	logger.Info("metrics", "address", "http://"+listener.Addr().String()+"/metrics")
	return func() {
		stopping, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(stopping) != nil {
			_ = s.Close() // a scraper that hangs must not hold up the stop
		}
	}
}
