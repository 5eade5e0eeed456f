-- Settles with subjects as store::request_counts::Counts::settle does, step by step.
-- KEYS: the epoch, then a hash a subject.
-- ARGV: now, leased_until, life of a hash in ms, then of each subject: day, month, day_spent, month_spent, lease_back,
-- day and month of its floor or two empty texts, and need, waiting, spare, day_limit, month_limit or five empty texts.
-- Returns of each subject day_used, month_used, granted, free. For one that is not known or not of this epoch it does
-- nothing and returns 0 or 1, unless there is a floor: at least so much is used according to the database.
-- Numbers are doubles: exact up to 2^53, which no limit exceeds.
local now, leased_until_new = tonumber(ARGV[1]), tonumber(ARGV[2])
local epoch = redis.call('GET', KEYS[1]) or ''
local answers = {}
for at = 2, #KEYS do
    local given = {}
    for field = 1, 12 do
        given[field] = tonumber(ARGV[3 + (at - 2) * 12 + field])
    end
    local told_day, told_month, day_spent, month_spent, lease_back = unpack(given, 1, 5)
    local floor_day, floor_month = given[6], given[7]
    local need, waiting_all, spare, day_limit, month_limit = unpack(given, 8, 12)

    local known = redis.call('HMGET', KEYS[at], 'epoch', 'day', 'day_used', 'month', 'month_used', 'leased', 'leased_until')
    local stale = known[1] ~= epoch
    if stale and not floor_day then
        answers[#answers + 1] = { known[1] and 1 or 0 }
    else
        local day, day_used = tonumber(known[2] or told_day), tonumber(known[3] or 0)
        local month, month_used = tonumber(known[4] or told_month), tonumber(known[5] or 0)
        local leased, leased_until = tonumber(known[6] or 0), tonumber(known[7] or 0)
        if leased_until < now then
            leased = 0
        end
        if told_day > day then
            day, day_used, leased = told_day, 0, 0
        end
        if told_month > month then
            month, month_used = told_month, 0
        end
        if told_day == day then
            if stale then
                day_used = math.max(day_used, floor_day)
            end
            day_used = math.max(day_used + day_spent, 0)
            leased = math.max(leased - lease_back, 0)
        end
        if told_month == month then
            if stale then
                month_used = math.max(month_used, floor_month)
            end
            month_used = math.max(month_used + month_spent, 0)
        end
        leased_until = math.max(leased_until, leased_until_new)

        local granted, free = 0, 0
        if need then
            free = math.max(math.min(day_limit - day_used, month_limit - month_used) - leased, 0)
            local waiting = 0
            if free >= need then
                waiting = math.min(math.max(waiting_all, need), free)
            end
            granted = waiting + math.min(spare, math.floor((free - waiting) / 16))
            leased = leased + granted
            free = free - granted
        end

        local number = function(value)
            return string.format('%.0f', value)
        end
        redis.call('HSET', KEYS[at], 'epoch', epoch, 'day', number(day), 'day_used', number(day_used),
            'month', number(month), 'month_used', number(month_used), 'leased', number(leased),
            'leased_until', number(leased_until))
        redis.call('PEXPIRE', KEYS[at], ARGV[3])
        answers[#answers + 1] = { day_used, month_used, granted, free }
    end
end
return answers
