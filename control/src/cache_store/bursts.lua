-- A bucket that nodes share: limits/burst.rs is the same for one node.
-- KEYS: when it is full again, in microseconds. ARGV: how long a token takes to come.
-- Returns how long to wait for a token; 0: it was taken. The time is this server's: nodes' clocks differ.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full_at = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + tonumber(ARGV[1])
local wait = math.min(full_at - now - 1000000, 1000000)
if wait > 0 then
    return wait
end
redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', math.ceil((full_at - now) / 1000))
return 0
