package broker

import (
	"sync"
	"time"

	"ringmq/broker/client"
	"ringmq/broker/stats"
)

// chores are what a broker does by the clock, and saving: all on one goroutine, so that nothing of it overlaps.
type chores struct {
	broker *Broker
	dirty  chan struct{} // one slot: topics or groups have changed
	quit   chan struct{}
	ended  sync.WaitGroup
	once   sync.Once
}

func newChores(b *Broker) *chores {
	return &chores{broker: b, dirty: make(chan struct{}, 1), quit: make(chan struct{})}
}

// saveSoon never blocks. What is told before start is saved then.
func (c *chores) saveSoon() {
	select {
	case c.dirty <- struct{}{}:
	default:
	}
}

func (c *chores) start() { c.ended.Go(c.run) }

// stop returns when nothing runs any more. Without a start it does nothing.
func (c *chores) stop() {
	c.once.Do(func() { close(c.quit) })
	c.ended.Wait()
}

func (c *chores) run() {
	b := c.broker
	offsets := time.NewTicker(b.opts.SaveOffsetsEvery)
	defer offsets.Stop()
	scan := time.NewTicker(client.ScanInterval)
	defer scan.Stop()
	sample := time.NewTicker(stats.Interval)
	defer sample.Stop()
	for {
		select {
		case <-c.dirty:
			c.try("topics and groups", c.saveTopics, b.groups.Save)
		case <-offsets.C:
			// Topics and groups as well: a save that failed is tried again.
			c.try("settings", c.saveTopics, b.groups.Save, b.offsets.Save)
		case <-scan.C:
			b.api.Expire()
		case <-sample.C:
			b.sampler.Sample()
		case <-c.quit:
			return
		}
	}
}

// saveTopics also answers the sends that wait for it.
func (c *chores) saveTopics() error {
	err := c.broker.topics.Save()
	c.broker.api.TopicsSaved(err)
	return err
}

func (c *chores) try(what string, saves ...func() error) {
	for _, save := range saves {
		if err := save(); err != nil {
			c.broker.log.Error("broker: "+what+" could not be saved, will be tried again", "error", err)
		}
	}
}
